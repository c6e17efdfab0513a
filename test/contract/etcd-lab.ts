/** What the contract of the etcd port needs from whatever is under test: a place to run members in and ways to hurt them. */

import type { EtcdPeer } from '../../runtime/core/etcd-config.ts';
import type { EtcdAlarmKind, EtcdClients, EtcdHealthProbe, MemberId } from '../../runtime/ports/etcd.ts';

/** Where one member lives: its addresses and its disk. */
export type Place = {
  readonly name: string;
  readonly peerURL: string;
  readonly clientURL: string;
  readonly metricsURL: string;
};

export type Start = {
  readonly initialCluster: readonly EtcdPeer[];
  readonly state: 'new' | 'existing';
  readonly token: string;
};

export type LastWords = { readonly exitCode: number | null; readonly terminationMessage: string };

export type EtcdLab = AsyncDisposable & {
  readonly clients: EtcdClients;
  readonly probe: EtcdHealthProbe;
  place(name: string): Promise<Place>;
  /** Starts the member's process on whatever its disk holds. */
  run(place: Place, start: Start): Promise<void>;
  /** Resolves when the process of this place has ended by itself. */
  ended(place: Place): Promise<LastWords>;
  kill(place: Place): Promise<void>;
  terminate(place: Place): Promise<void>;
  hang(place: Place): Promise<void>;
  resume(place: Place): Promise<void>;
  /** Empties the disk of a member that does not run. */
  wipe(place: Place): Promise<void>;
  arm(place: Place, memberId: MemberId, alarm: EtcdAlarmKind): Promise<void>;
  /** Creates `root` with this password and a user without rights, `nobody`, with the same; then switches auth on. */
  enableAuth(place: Place, password: string): Promise<void>;
  disableAuth(place: Place, password: string): Promise<void>;
  /** Returns once the members' connections are as old as etcd wants them before it changes the membership. */
  matureConnections(): Promise<void>;
};

export type EtcdUnderTest = {
  readonly title: string;
  /** What `status` reports. */
  readonly version: string;
  open(): Promise<EtcdLab>;
};
