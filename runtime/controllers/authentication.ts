/** Carries out the steps by which etcd begins, changes and ends to ask for passwords. */
import type { Step } from '../core/steps.ts';
import { EtcdFault } from '../ports/etcd.ts';
import { writeInUse } from './in-use-secrets.ts';
import { membershipCall, speakers } from './member-calls.ts';
import type { ClusterName } from './world.ts';
import { changeQuorum, DONE, type Outcome, type Scene } from './writes.ts';

export type AuthenticationStep = Extract<
  Step,
  { do: 'KeepPassword' | 'EnableAuth' | 'ChangePassword' | 'DisableAuth' | 'LatchAuth' }
>;

/** What was done by an earlier try of this very step. */
const unless = async (
  call: Promise<unknown>,
  done: EtcdFault['reason'],
  otherwise?: () => Promise<unknown>,
): Promise<void> => {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof EtcdFault && error.reason === done)) throw error;
    await otherwise?.();
  }
};

const clusterName = ({ seen }: Scene): ClusterName => ({ namespace: seen.namespace, name: seen.cluster });

const keepPassword = async (scene: Scene, as: 'next' | 'inForce'): Promise<Outcome> => {
  await writeInUse(scene, { purpose: 'root', data: scene.world.dialler.toKeep(clusterName(scene), as) });
  return DONE;
};

const enableAuth = async (scene: Scene): Promise<Outcome> => {
  const { world, signal } = scene;
  const password = world.dialler.password(clusterName(scene));
  const [client] = speakers(scene);
  if (client === undefined || password === undefined) return DONE;
  return membershipCall([client], async () => {
    // A user that is left from before may have any password; while nobody is asked for one, it can be set.
    await unless(client.userAdd('root', password, { signal }), 'UserExists', () =>
      client.userChangePassword('root', password, { signal }),
    );
    await unless(client.roleAdd('root', { signal }), 'RoleExists');
    await client.userGrantRole('root', 'root', { signal });
    await client.authEnable({ signal });
    await changeQuorum(scene, { authEnabled: true });
  });
};

const changePassword = async (scene: Scene): Promise<Outcome> => {
  const { world, signal } = scene;
  const password = world.dialler.password(clusterName(scene));
  const [client] = speakers(scene);
  if (client === undefined || password === undefined) return DONE;
  return membershipCall([client], () => client.userChangePassword('root', password, { signal }));
};

const disableAuth = async (scene: Scene): Promise<Outcome> => {
  const [client] = speakers(scene);
  if (client === undefined) return DONE;
  return membershipCall([client], async () => {
    await client.authDisable({ signal: scene.signal });
    await changeQuorum(scene, { authEnabled: false });
  });
};

export const authenticate = async (scene: Scene, step: AuthenticationStep): Promise<Outcome> => {
  switch (step.do) {
    case 'KeepPassword':
      return keepPassword(scene, step.as);
    case 'EnableAuth':
      return enableAuth(scene);
    case 'ChangePassword':
      return changePassword(scene);
    case 'DisableAuth':
      return disableAuth(scene);
    case 'LatchAuth':
      await changeQuorum(scene, { authEnabled: step.enabled });
      return DONE;
    default:
      return step satisfies never;
  }
};
