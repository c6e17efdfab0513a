/** Mutual TLS and passwords together: what etcd makes of a client's certificate, by the names that the runtime relies on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CLIENT_AUTH, type Identity, issue, SERVER_AUTH } from '../../functions/server/certificates.fixture.ts';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { type EtcdTlsFiles, etcdConfigFile } from '../../runtime/core/etcd-config.ts';
import { type EtcdClients, EtcdFault, type EtcdFaultReason, type EtcdMemberClient } from '../../runtime/ports/etcd.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import type { Place, Start } from './etcd-lab.ts';
import { EtcdWorkbench } from './etcd-process.ts';
import { configOf, freePlace } from './etcd-real.ts';
import { eventually } from './patience.ts';

const HOST = 'member.demo.team-a.svc';
const ca = issue({ subject: 'clients', authority: true });
const server = issue({ subject: 'server', issuer: ca, usages: [SERVER_AUTH, CLIENT_AUTH], dnsNames: [HOST] });
const client = (commonName?: string): Identity =>
  issue({
    subject: 'client',
    issuer: ca,
    usages: [CLIENT_AUTH],
    ...(commonName === undefined ? {} : { commonName }),
  });

const refuses = async (call: Promise<unknown>, reason: EtcdFaultReason): Promise<void> => {
  const failure = await call.then(
    () => assert.fail('the call went well'),
    (cause: unknown) => cause,
  );
  if (!(failure instanceof EtcdFault)) throw failure;
  assert.equal(failure.reason, reason, failure.message);
};

/** Members that want a certificate of every client. */
class Secured implements AsyncDisposable {
  readonly #bench: EtcdWorkbench;
  readonly #clients: EtcdClients = createEtcdClients();
  readonly #version: string;

  private constructor(bench: EtcdWorkbench, version: string) {
    this.#bench = bench;
    this.#version = version;
  }

  static async open(version: string): Promise<Secured> {
    return new Secured(await EtcdWorkbench.open(), version);
  }

  async place(name: string): Promise<Place> {
    const place = await freePlace(name);
    return { ...place, clientURL: place.clientURL.replace('http:', 'https:') };
  }

  async start(place: Place, members: readonly Place[], state: Start['state']): Promise<void> {
    const file = async (name: string, text: string): Promise<string> => {
      await this.#bench.write(text, place.name, name);
      return this.#bench.path(place.name, name);
    };
    const clientTls: EtcdTlsFiles = {
      certFile: await file('tls.crt', server.certificate),
      keyFile: await file('tls.key', server.key),
      trustedCAFile: await file('ca.crt', ca.certificate),
      clientCertAuth: true,
    };
    const initialCluster = members.map(({ name, peerURL }) => ({ name, peerURL }));
    const config = configOf(this.#version, place, this.#bench.path(place.name, 'data'), {
      token: 'contract',
      state,
      initialCluster,
    });
    await this.#bench.start(this.#version, place.name, etcdConfigFile({ ...config, clientTls }));
  }

  as({ clientURL }: Place, { certificate, key }: Identity, password?: string): EtcdMemberClient {
    return this.#clients.at({
      url: clientURL,
      tls: {
        ca: Buffer.from(ca.certificate),
        certificate: Buffer.from(certificate),
        key: Buffer.from(key),
        serverName: HOST,
      },
      ...(password === undefined ? {} : { auth: { username: 'root', password } }),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#clients.close();
    await this.#bench[Symbol.asyncDispose]();
  }
}

for (const version of memberEtcdVersions) {
  describe(`a client's certificate where etcd ${version} asks for passwords`, () => {
    test('lets in as root who is named root, at voters and at learners, whatever the password is', async () => {
      await using secured = await Secured.open(version);
      const [voter, learner] = [await secured.place('m0'), await secured.place('m1')];
      await secured.start(voter, [voter], 'new');
      const root = secured.as(voter, client('root'));
      await eventually(() => root.status());
      await eventually(() => root.memberAddLearner([learner.peerURL]));
      await secured.start(learner, [voter, learner], 'existing');
      await eventually(() => secured.as(learner, client('root')).status());

      await root.userAdd('root', 'forgotten');
      await root.roleAdd('root');
      await root.userGrantRole('root', 'root');
      await root.authEnable();
      assert.equal(await root.authStatus(), 'onForRoot');
      await root.status();
      await root.put('a', 'b');
      assert.equal((await root.memberList({ linearizable: true })).members.length, 2);
      await root.hashKv(0n);
      assert.equal((await eventually(() => secured.as(learner, client('root')).status())).isLearner, true);
      // So a password that nobody knows any more is mended.
      await root.userChangePassword('root', 'known');
      await secured.as(voter, client(), 'known').put('a', 'c');
      await root.authDisable();
      await secured.as(voter, client()).put('a', 'd');
    });

    test('is no more than its user with another name, and nobody without one, also where it is answered', async () => {
      await using secured = await Secured.open(version);
      const voter = await secured.place('m0');
      await secured.start(voter, [voter], 'new');
      const root = secured.as(voter, client('root'));
      await eventually(() => root.status());
      await root.userAdd('root', 'known');
      await root.userAdd('shop', 'unused');
      await root.roleAdd('root');
      await root.userGrantRole('root', 'root');
      await root.authEnable();
      for (const name of [undefined, 'shop', 'stranger']) {
        const nobody = secured.as(voter, client(name));
        // What looks like being let in, and is not.
        await nobody.status();
        assert.equal((await nobody.memberList({ linearizable: true })).members.length, 1);
        assert.deepEqual(await nobody.alarms(), []);
        assert.equal(await nobody.authStatus(), 'onForOthers', name);
        await refuses(nobody.put('a', 'b'), 'PermissionDenied');
        await refuses(nobody.memberPromote('1'), name === undefined ? 'AuthRequired' : 'PermissionDenied');
      }
      // Who gives a password is who the password says, whatever the certificate says.
      await secured.as(voter, client('shop'), 'known').put('a', 'b');
      await refuses(secured.as(voter, client('root'), 'wrong').put('a', 'b'), 'InvalidAuth');
    });
  });
}
