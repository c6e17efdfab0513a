/**
 * The whole life of root's password, with the runtime away at the worst moments: asked for, changed, mistaken, lost, found
 * on and off, given up. At the end nothing but Secrets holds any of the passwords that were used.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { inUseName, PORTS, peerHost } from '../../../api/names.ts';
import type { Reason } from '../../../api/reasons.ts';
import { createEtcdClients } from '../../../runtime/adapters/etcd/clients.ts';
import { EtcdFault, type EtcdMemberClient } from '../../../runtime/ports/etcd.ts';
import type { KubeObject } from '../../../runtime/ports/kube.ts';
import { claim, claimIn, condition, podsOf, quorumIn, ready, uidsOf } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { authority, clientIdentity, serverIdentity, tlsSecret } from '../own-secrets.ts';
import { connected, inNamespace, type Place } from '../place.ts';
import { wholeRuntimeLog, withoutRuntime } from '../runtime.ts';

const { cluster } = await connected();
const skip = cluster.local ? false : 'the test must reach the Pods from here';

/** A new member preallocates 64 MiB for its log. */
const roomy = { medium: 'Memory', size: '256Mi' } as const;
const LONG_MS = 240_000;

const used: string[] = [];
const draw = (): string => {
  const password = `pw-${randomBytes(9).toString('hex')}`;
  used.push(password);
  return password;
};

const secret = (name: string, stringData: Record<string, string>, type = 'kubernetes.io/basic-auth'): KubeObject =>
  ({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, type, stringData }) as KubeObject;

const ca = authority('clients');
const etcd = createEtcdClients();

/** A client of one member, as nobody or as root. */
const clientOf = async (place: Place, name: string, password?: string): Promise<EtcdMemberClient> => {
  const open = (await podsOf(place, name)).find(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined &&
      status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True'),
  );
  if (open?.status?.podIP === undefined) return notYet('no Pod is ready');
  return etcd.dial({
    url: `https://${open.status.podIP}:${PORTS.client}`,
    tls: { ca: Buffer.from(ca.certificate), serverName: peerHost(name, place.namespace, open.metadata.name) },
    ...(password === undefined ? {} : { auth: { username: 'root', password } }),
  });
};

const asked = async <T>(
  place: Place,
  password: string | undefined,
  call: (client: EtcdMemberClient) => Promise<T>,
): Promise<T> => {
  const client = await clientOf(place, 'demo', password);
  try {
    return await call(client);
  } finally {
    client.close();
  }
};

/** Root may read by quorum, and ask what a snapshot asks first; whoever comes with another password, or none, may not. */
const inForce = (place: Place, password: string, ...others: readonly (string | undefined)[]): Promise<void> =>
  eventually(
    'the password is in force, and no other',
    async () => {
      await asked(place, password, async (client) => {
        await client.status();
        await client.get('a');
      });
      for (const other of others) {
        const refused = await asked(place, other, (client) => client.status()).then(
          () => 'let in',
          (error: unknown) => (error instanceof EtcdFault ? error.reason : String(error)),
        );
        if (refused !== (other === undefined ? 'AuthRequired' : 'InvalidAuth')) notYet(`another one: ${refused}`);
      }
    },
    { deadlineMs: LONG_MS, everyMs: 2_000 },
  );

const told = (place: Place, name: string, reason: Reason) =>
  condition(() => claimIn(place, name), 'Stalled', { status: 'True', reason }, { deadlineMs: LONG_MS });

const settled = async (place: Place, name: string): Promise<void> => {
  await condition(() => claimIn(place, name), 'Stalled', { status: 'False' }, { deadlineMs: LONG_MS });
  await ready(place, name, { deadlineMs: LONG_MS });
};

const latched = (place: Place, name: string, on: boolean): Promise<void> =>
  eventually(
    `authentication is ${on ? 'on' : 'off'}`,
    async () => {
      const { authEnabled } = (await quorumIn(place, name)).status ?? {};
      if (authEnabled !== on) notYet(`authEnabled is ${authEnabled}`);
    },
    { deadlineMs: LONG_MS },
  );

const edit = (place: Place, name: string, spec: object): Promise<string> =>
  place.kubectl(['patch', 'etcdcluster', name, '--type=merge', '-p', JSON.stringify({ spec })]);

const asking = { enabled: true, rootCredentialsSecretRef: { name: 'root' } };

/** What a person or another program may look at without the right to read Secrets. */
const whatIsSaid = async (place: Place): Promise<Map<string, string>> => {
  const kinds = (await place.kubectl(['api-resources', '--verbs=list', '--namespaced', '-o', 'name']))
    .split('\n')
    .filter((kind) => kind !== '' && kind !== 'secrets' && !kind.startsWith('pods.metrics'));
  const objects = await place.kubectl(['get', kinds.join(','), '-o', 'json', '--show-managed-fields'], {
    timeoutMs: 120_000,
  });
  const pods = await podsOf(place, 'demo');
  const logs = await Promise.all(pods.map(({ metadata }) => place.kubectl(['logs', metadata.name, '--tail=-1'])));
  const processes = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
  const words = await Promise.all(processes.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return new Map([
    ['objects and events', objects],
    ['logs of members', logs.join('\n')],
    ['arguments of processes', words.join('\n')],
  ]);
};

test(
  "root's password is followed through changes, mistakes and losses while runtimes come and go, and stands nowhere but in Secrets",
  { skip },
  inNamespace('passwords', async (place) => {
    const said = new Map<string, string>();
    const without = async (body: () => Promise<void>): Promise<void> => {
      // The Pod's log goes with it.
      const before = said.get('log of the runtime') ?? '';
      said.set('log of the runtime', `${before}${await wholeRuntimeLog(cluster)}`);
      await withoutRuntime(cluster, body);
    };
    const named = (name: string) => ({ cluster: name, namespace: place.namespace });
    await place.apply(
      tlsSecret('demo-server', serverIdentity(ca, named('demo')), ca.certificate),
      tlsSecret('named-server', serverIdentity(ca, named('named')), ca.certificate),
      tlsSecret('named-client', clientIdentity(ca, { commonName: 'root' }), ca.certificate),
      secret('named-root', { password: draw() }),
      claim('demo', {
        storage: roomy,
        tls: { client: { serverSecretRef: { name: 'demo-server' } } },
        auth: asking,
      }),
      claim('named', {
        replicas: 1,
        storage: roomy,
        tls: {
          client: { serverSecretRef: { name: 'named-server' }, operatorClientSecretRef: { name: 'named-client' } },
        },
        auth: { enabled: true, rootCredentialsSecretRef: { name: 'named-root' } },
      }),
    );

    // Mistakes before the first password: the cluster serves all the same, and each is told by a reason of its own.
    await told(place, 'demo', 'SecretMissing');
    const mistakes: readonly [Reason, KubeObject][] = [
      ['SecretWrongType', secret('root', { password: draw() }, 'example.com/mine')],
      ['SecretIncomplete', secret('root', { username: 'root' })],
      ['SecretIncomplete', secret('root', { username: 'root', password: '' })],
    ];
    for (const [reason, wrong] of mistakes) {
      // The type of a Secret cannot be changed.
      await place.kubectl(['delete', 'secret', 'root', '--ignore-not-found']);
      await place.apply(wrong);
      await told(place, 'demo', reason);
    }
    let password = draw();
    await place.apply(secret('root', { username: 'root', password }));
    await latched(place, 'demo', true);
    await settled(place, 'demo');
    await inForce(place, password, undefined);

    // Three changes, each while no runtime runs, with members added and removed in between.
    for (const replicas of [5, 3, 3]) {
      const before = password;
      password = draw();
      await without(() => place.apply(secret('root', { username: 'root', password })));
      await inForce(place, password, before, undefined);
      await edit(place, 'demo', { replicas });
      await settled(place, 'demo');
      await inForce(place, password, before, undefined);
    }

    // Mistakes later: what was in force lets the runtime in, and a member that is lost comes back meanwhile.
    await place.apply(secret('root', { username: 'root', password: '' }));
    await told(place, 'demo', 'SecretIncomplete');
    const [lost] = await podsOf(place, 'demo');
    await place.kubectl(['delete', 'pod', lost?.metadata.name ?? '', '--wait=false']);
    await eventually(
      'another member is there',
      async () => {
        const pods = await podsOf(place, 'demo');
        if (pods.some(({ metadata }) => metadata.uid === lost?.metadata.uid)) notYet('it is not gone yet');
        await ready(place, 'demo', { deadlineMs: 1_000 });
      },
      { deadlineMs: LONG_MS },
    );
    await inForce(place, password, undefined);

    // Nothing is left that lets it in: told, and mended by the one in force. A certificate of root's needs no such help.
    const pods = uidsOf(await podsOf(place, 'demo'));
    await without(async () => {
      await place.kubectl(['delete', 'secret', inUseName('demo', 'root'), inUseName('named', 'root')]);
      await place.apply(
        secret('root', { username: 'root', password: draw() }),
        secret('named-root', { password: draw() }),
      );
    });
    await told(place, 'demo', 'AuthCredentialsRejected');
    assert.notEqual((await quorumIn(place, 'demo')).status?.phase, 'QuorumLost');
    await place.apply(secret('root', { username: 'root', password }));
    await settled(place, 'demo');
    assert.deepEqual(uidsOf(await podsOf(place, 'demo')), pods, 'members are left alone');
    await eventually(
      "root's certificate lets the runtime in, and the password becomes that of the Secret",
      async () => {
        const [wanted, kept] = await Promise.all(
          ['named-root', inUseName('named', 'root')].map((name) =>
            place.kubectl(['get', 'secret', name, '-o', 'jsonpath={.data.password}/{.data.next}']),
          ),
        );
        if (wanted !== kept) notYet('it is not so yet');
      },
      { deadlineMs: LONG_MS },
    );
    await settled(place, 'named');

    // Found off: turned on again, and told. Found on: asked, and taken in.
    await without(() => asked(place, password, (client) => client.authDisable()));
    await inForce(place, password, undefined);
    assert.match(await place.kubectl(['get', 'events', '-o', 'json']), /turned off by somebody else/);
    await edit(place, 'demo', { auth: { enabled: false } });
    await latched(place, 'demo', false);
    await asked(place, undefined, (client) => client.get('a'));
    await edit(place, 'demo', { auth: null });
    const theirs = draw();
    await without(() =>
      asked(place, undefined, async (client) => {
        await client.userChangePassword('root', theirs);
        await client.authEnable();
      }),
    );
    await told(place, 'demo', 'AuthRequiredNotConfigured');
    await place.apply(secret('root', { username: 'root', password: theirs }));
    await edit(place, 'demo', { auth: asking });
    await latched(place, 'demo', true);
    await settled(place, 'demo');
    await inForce(place, theirs, password, undefined);

    said.set('log of the runtime', `${said.get('log of the runtime')}${await wholeRuntimeLog(cluster)}`);
    assert.match(said.get('log of the runtime') ?? '', /ChangePassword/, 'the log that is searched is the right one');
    for (const [what, text] of [...said, ...(await whatIsSaid(place))]) {
      for (const word of used) {
        for (const form of [word, Buffer.from(word).toString('base64')]) {
          assert.ok(!text.includes(form), `a password stands in ${what}`);
        }
      }
    }
  }),
);
