import { kubeAccess } from '../../runtime/adapters/kube/kube-access.ts';
import { createKube } from '../../runtime/adapters/kube/kube-client.ts';
import { startFakeKube } from '../fakes/fake-kube.ts';
import { kubeContract } from './kube.contract.ts';

kubeContract(
  'the fake',
  async () => {
    const fake = await startFakeKube();
    fake.inject.compact();
    return { kube: fake.kube, done: () => fake.close() };
  },
  { forgets: true },
);

// The same checks on a real API server wherever one is at hand.
if ((process.env.KUBECONFIG ?? '') !== '') {
  kubeContract(
    'a real API server',
    async () => {
      const access = await kubeAccess();
      return { kube: createKube({ access }), done: async () => access.close() };
    },
    { forgets: false },
  );
}
