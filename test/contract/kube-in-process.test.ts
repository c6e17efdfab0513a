import { kubeInProcess } from '../fakes/fake-kube-in-process.ts';
import { fakeKubeStore } from '../fakes/fake-kube-store.ts';
import { kubeContract } from './kube.contract.ts';

kubeContract(
  'the fake without HTTP',
  async () => {
    const store = fakeKubeStore();
    const { kube } = kubeInProcess(store);
    store.compact();
    return { kube, done: async () => {} };
  },
  { forgets: true },
);
