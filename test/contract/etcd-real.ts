import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Etcd3 } from 'etcd3';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { createEtcdHealthProbe } from '../../runtime/adapters/etcd/health-probe.ts';
import { type EtcdConfig, etcdConfigFile, etcdMinor } from '../../runtime/core/etcd-config.ts';
import type { EtcdLab, EtcdUnderTest, Place, Start } from './etcd-lab.ts';
import { type EtcdProcess, EtcdWorkbench, freePorts } from './etcd-process.ts';

/** etcd's own constant: how long peers must have been connected before a membership change. */
const HEALTH_INTERVAL_MS = 5_000;

export const configOf = (version: string, place: Place, dataDir: string, start: Start): EtcdConfig => {
  const minor = etcdMinor(version);
  if (minor === undefined) throw new TypeError(`no configuration file is known for ${version}`);
  return {
    minor,
    name: place.name,
    dataDir,
    peerURL: place.peerURL,
    clientURL: place.clientURL,
    listen: { peer: place.peerURL, client: place.clientURL, metrics: place.metricsURL },
    initialCluster: start.initialCluster,
    initialClusterState: start.state,
    initialClusterToken: start.token,
  };
};

/** Where a member can run on loopback. */
export const freePlace = async (name: string): Promise<Place> => {
  const [peer, client, metrics] = await freePorts(3);
  return {
    name,
    peerURL: `http://127.0.0.1:${peer}`,
    clientURL: `http://127.0.0.1:${client}`,
    metricsURL: `http://127.0.0.1:${metrics}`,
  };
};

/** Real members of one version, on loopback. */
export const realEtcd = (version: string): EtcdUnderTest => ({
  title: `etcd ${version}`,
  version,
  open: async (): Promise<EtcdLab> => {
    const bench = await EtcdWorkbench.open();
    const clients = createEtcdClients();
    const processes = new Map<string, EtcdProcess>();
    let lastStart = 0;

    const processOf = (place: Place): EtcdProcess => {
      const found = processes.get(place.name);
      if (found === undefined) throw new TypeError(`${place.name} was never started`);
      return found;
    };
    const withAdmin = async (place: Place, password: string | undefined, work: (admin: Etcd3) => Promise<unknown>) => {
      const admin = new Etcd3({
        hosts: place.clientURL,
        ...(password === undefined ? {} : { auth: { username: 'root', password } }),
      });
      try {
        await work(admin);
      } finally {
        admin.close();
      }
    };

    return {
      clients,
      probe: createEtcdHealthProbe(),
      place: async (name) => {
        return freePlace(name);
      },
      run: async (place, start) => {
        const config = configOf(version, place, bench.path(place.name, 'data'), start);
        processes.set(place.name, await bench.start(version, place.name, etcdConfigFile(config)));
        lastStart = Date.now();
      },
      ended: async (place) => processOf(place).ended,
      kill: async (place) => {
        await processOf(place).stop('SIGKILL');
      },
      terminate: async (place) => {
        await processOf(place).stop('SIGTERM');
      },
      hang: (place) => processOf(place).freeze(),
      resume: async (place) => processOf(place).thaw(),
      wipe: async (place) => {
        await rm(bench.path(place.name, 'data'), { recursive: true, force: true });
      },
      arm: (place, memberId, alarm) =>
        withAdmin(place, undefined, (admin) =>
          admin.maintenance.alarm({
            action: 'Activate',
            memberID: BigInt(`0x${memberId}`).toString(),
            alarm: alarm === 'NOSPACE' ? 'Nospace' : 'Corrupt',
          }),
        ),
      enableAuth: (place, password) =>
        withAdmin(place, undefined, async (admin) => {
          await admin.role('root').create();
          await admin.user('root').create(password);
          await admin.user('root').addRole('root');
          await admin.user('nobody').create(password);
          await admin.auth.authEnable();
        }),
      disableAuth: (place, password) => withAdmin(place, password, (admin) => admin.auth.authDisable()),
      matureConnections: async () => {
        // etcd tells nobody how old its connections are; the only sign is that it takes the change that a test is about.
        await delay(Math.max(0, lastStart + HEALTH_INTERVAL_MS + 1_500 - Date.now()));
      },
      [Symbol.asyncDispose]: async () => {
        clients.close();
        await bench[Symbol.asyncDispose]();
      },
    };
  },
});
