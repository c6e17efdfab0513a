import { etcdConfigFile } from '../../runtime/core/etcd-config.ts';
import { createFakeEtcd, type FakeProcess } from '../fakes/fake-etcd.ts';
import type { EtcdLab, EtcdUnderTest, Place } from './etcd-lab.ts';
import { configOf } from './etcd-real.ts';

/** The fake, held to what real etcd does. */
export const fakeEtcd = (version: string): EtcdUnderTest => ({
  title: `the fake as ${version}`,
  version,
  open: async (): Promise<EtcdLab> => {
    const fake = createFakeEtcd({
      youngConnections: true,
      after: (ms, then) => {
        const timer = setTimeout(then, ms);
        return () => clearTimeout(timer);
      },
    });
    const processes = new Map<string, FakeProcess>();
    const processOf = (place: Place): FakeProcess => {
      const found = processes.get(place.name);
      if (found === undefined) throw new TypeError(`${place.name} was never started`);
      return found;
    };
    return {
      clients: fake.clients,
      probe: fake.probe,
      place: async (name) => ({
        name,
        peerURL: `http://${name}:2380`,
        clientURL: `http://${name}:2379`,
        metricsURL: `http://${name}:2381`,
      }),
      run: async (place, start) => {
        const configFile = etcdConfigFile(configOf(version, place, `/data/${place.name}`, start));
        processes.set(place.name, fake.start({ configFile, disk: place.name, version }));
      },
      ended: async (place) => processOf(place).ended,
      kill: async ({ clientURL }) => fake.kill(clientURL),
      terminate: async ({ clientURL }) => fake.stop(clientURL),
      hang: async ({ clientURL }) => fake.hang(clientURL),
      resume: async ({ clientURL }) => fake.resume(clientURL),
      wipe: async ({ name }) => fake.wipe(name),
      arm: async (_, memberId, alarm) => fake.arm(memberId, alarm),
      enableAuth: async ({ clientURL }, password) => fake.enableAuth(clientURL, { root: password, nobody: password }),
      disableAuth: async ({ clientURL }) => fake.disableAuth(clientURL),
      matureConnections: async () => fake.matureConnections(),
      [Symbol.asyncDispose]: async () => fake.clients.close(),
    };
  },
});
