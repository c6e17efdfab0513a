/** What people copy has to work: every manifest of examples/ without TLS, applied as it is. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import type { EtcdCluster } from '../../../api/etcdcluster.gen.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import { podsOf, ready, uidsOf } from '../claim.ts';
import { oneCluster } from '../identity.ts';
import { inNamespace, seenKinds } from '../place.ts';

const folder = join(import.meta.dirname, '../../../examples');
/**
 * Those with TLS are for tls-examples.test.ts: members refuse whoever asks them in the clear. What acts on a cluster that is there
 * is for the test of that.
 */
const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml') && !/^(tls|restore)-/.test(name)).sort();

const objectsIn = async (file: string) =>
  parseAllDocuments(await readFile(join(folder, file), 'utf8')).map((document) => document.toJS());

const claimOf = async (file: string): Promise<EtcdCluster & { metadata: { name: string } }> =>
  (await objectsIn(file)).find(({ kind }) => kind === 'EtcdCluster');

describe('examples/', () => {
  for (const file of files) {
    test(
      `${file} becomes a quorum with what it asks for in every Pod`,
      inNamespace('example', async (place) => {
        const { metadata, spec } = await claimOf(file);
        await place.kubectl(['apply', '-f', join(folder, file)]);
        await ready(place, metadata.name);
        await oneCluster(place, metadata.name, spec.replicas ?? 3);

        const pods = await podsOf(place, metadata.name);
        for (const { kind, spec: policy } of await objectsIn(file)) {
          if (kind !== 'NetworkPolicy') continue;
          const selector = Object.entries(policy.podSelector.matchLabels).map((label) => label.join('='));
          const guarded = await place.list(seenKinds.pods, selector.join(','));
          assert.deepEqual(uidsOf(guarded), uidsOf(pods), 'the policy guards the members and nobody else');
        }
        for (const pod of pods) {
          const container = pod.spec?.containers.find(({ name }) => name === 'etcd');
          assert.equal(container?.image, `${spec.image?.repository ?? 'quay.io/coreos/etcd'}:v${spec.version}`);
          assert.deepEqual(
            container?.resources?.requests,
            spec.resources?.requests ?? { cpu: '100m', memory: '128Mi' },
          );
          if (spec.priorityClassName !== undefined) assert.equal(pod.spec?.priorityClassName, spec.priorityClassName);
          for (const toleration of spec.tolerations ?? []) {
            assert.ok(
              pod.spec?.tolerations?.some(({ key }) => key === toleration.key),
              JSON.stringify(toleration),
            );
          }
          for (const [name, value] of Object.entries(spec.additionalMetadata?.labels ?? {})) {
            assert.equal(pod.metadata.labels?.[name], value);
          }
          for (const [name, value] of Object.entries(spec.additionalMetadata?.annotations ?? {})) {
            assert.equal(pod.metadata.annotations?.[name], value);
          }
          const config = pod.metadata.annotations?.[ANNOTATIONS.config] ?? '';
          if (spec.options?.quotaBackendBytes !== undefined) {
            assert.match(config, new RegExp(`quota-backend-bytes: ${spec.options.quotaBackendBytes}\\b`));
          }
        }
      }),
    );
  }
});
