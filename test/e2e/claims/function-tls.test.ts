/** Who may call the function: Crossplane, by its client certificate, and nobody else. At the real Pods, with real secrets. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { Secret } from 'kubernetes-types/core/v1.js';
import { functionName } from '../../../deploy/names.ts';
import {
  crossplaneAuthority,
  crossplaneClient,
  type Identity,
} from '../../../functions/server/certificates.fixture.ts';
import { resources } from '../../../runtime/ports/kube.ts';
import { connected } from '../place.ts';

const { cluster, kube } = await connected();
const skip = cluster.local ? false : 'Pods of another cluster cannot be dialled from here';

const SYSTEM = 'crossplane-system';
const SERVICE = `${functionName}.${SYSTEM}`;
const METHOD = '/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction';
const REQUEST = Buffer.from([0x0a, 0x03, 0x0a, 0x01, 0x74]); // meta { tag: "t" }

const secret = async (name: string): Promise<Record<string, string>> => {
  const found = JSON.parse(await cluster.kubectl(['-n', SYSTEM, 'get', 'secret', name, '-o', 'json'])) as Secret;
  return Object.fromEntries(
    Object.entries(found.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
};

const addresses = async (): Promise<string[]> => {
  const { items } = await kube.list(resources.pods, {
    namespace: SYSTEM,
    labelSelector: `pkg.crossplane.io/function=${functionName}`,
  });
  return items.flatMap(({ status: now }) => now?.podIP ?? []);
};

const call = async (address: string, ca: string, identity: Identity | undefined): Promise<Buffer> => {
  const client = new Client(
    `${address}:9443`,
    credentials.createSsl(
      Buffer.from(ca),
      identity === undefined ? null : Buffer.from(identity.key),
      identity === undefined ? null : Buffer.from(identity.certificate),
      // Crossplane's certificates all bear the subject of their authority, so Node takes them for self-signed. Here it is
      // the server that judges; the client only has to get as far as showing its own.
      { rejectUnauthorized: false },
    ),
    { 'grpc.enable_retries': 0, 'grpc.ssl_target_name_override': SERVICE },
  );
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        METHOD,
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes,
        REQUEST,
        new Metadata(),
        { deadline: Date.now() + 5_000 },
        (error, answer) => (error === null ? resolve(answer as Buffer) : reject(error)),
      );
    });
  } finally {
    client.close();
  }
};

const refused = (error: ServiceError): boolean => error.code === status.UNAVAILABLE;

describe('a call of the function', { skip }, () => {
  test('with the certificate of the real Crossplane is answered by every Pod, without one or with a foreign one by none', async () => {
    const {
      'ca.crt': ca = '',
      'tls.crt': certificate = '',
      'tls.key': key = '',
    } = await secret('crossplane-tls-client');
    const pods = await addresses();
    assert.ok(pods.length > 0, 'the function has Pods');
    // The right words on a certificate that another authority signed.
    const foreign = crossplaneClient(crossplaneAuthority());
    for (const pod of pods) {
      assert.ok((await call(pod, ca, { certificate, key })).length > 0);
      await assert.rejects(call(pod, ca, undefined), refused, 'no certificate');
      await assert.rejects(call(pod, ca, foreign), refused, 'a foreign certificate');
    }
  });
});
