/** What is announced of a step when it is taken, as an Event of the claim. What is said of states, the reports say. */
import type { Reason } from '../../api/reasons.ts';
import type { Step } from './steps.ts';

/**
 * Steps that give data up or take the place of a cluster, by a person's consent. They end the longest of troubles, which has
 * said so much by then that its object's further events are held back: these are what it was about.
 */
export const ESSENTIAL: ReadonlySet<Step['do']> = new Set([
  'BeginRecovery',
  'CompleteRecovery',
  'AbandonRecovery',
  'BeginCutOver',
  'CompleteRestoreInPlace',
  'GiveUpRestore',
  'LetGo',
]);

type Words = { readonly type: 'Normal' | 'Warning'; readonly reason: Reason; readonly message: string };

/** What a person who follows the claim's events wants to read. Silence for what repeats or only prepares. */
export const wordsFor = (step: Step): Words | undefined => {
  switch (step.do) {
    case 'RecordAttempt':
      return {
        type: 'Normal',
        reason: 'Bootstrapping',
        message: `attempt ${step.attempt} at forming a cluster of ${step.members.length}`,
      };
    case 'AbandonAttempt':
      return { type: 'Warning', reason: 'BootstrapRestarted', message: step.why };
    case 'Latch':
      return {
        type: 'Normal',
        reason: 'Bootstrapping',
        message: `the cluster has formed: etcd cluster ID ${step.clusterID}`,
      };
    case 'Admit':
      return {
        type: 'Normal',
        reason: 'Serving',
        message: `identity proven, open to clients: ${step.pods.map(({ name }) => name).join(', ')}`,
      };
    case 'Dismiss':
      return {
        type: 'Normal',
        reason: 'Proving',
        message: `closed to clients, ${step.why}: ${step.pods.map(({ name }) => name).join(', ')}`,
      };
    case 'StopImpostor':
      return { type: 'Warning', reason: step.reason, message: `${step.why}; its Pod is stopped, its volume is kept` };
    case 'Retire':
      return step.keep === true
        ? {
            type: 'Warning',
            reason: 'Replacing',
            message: `these volumes of ${step.target} are let go of and not deleted, for whoever wants to look into them: ${step.volumes.map(({ name }) => name).join(', ')}`,
          }
        : undefined;
    case 'DeletePods':
      return {
        type: 'Normal',
        reason: step.reason,
        message: `${step.why}: ${step.pods.map(({ name }) => name).join(', ')}`,
      };
    case 'Adopt':
      return {
        type: 'Normal',
        reason: 'Adopting',
        message: 'the claim that was applied again takes over the running cluster',
      };
    case 'BeginOperation':
      return {
        type: 'Normal',
        reason:
          step.kind === 'AddMember'
            ? 'Adding'
            : step.kind === 'RemoveMember'
              ? 'Removing'
              : step.kind === 'RemoveOrphan'
                ? 'MemberListOrphan'
                : 'Replacing',
        message: `${step.kind} ${step.target}: ${step.why}`,
      };
    case 'EndOperation':
      return {
        type: step.outcome === 'abandoned' ? 'Warning' : 'Normal',
        reason: step.outcome === 'removed' ? 'Removed' : 'Settled',
        message: `${step.kind} ${step.target}: ${step.outcome}`,
      };
    case 'Defragment':
      return { type: 'Normal', reason: 'SpaceFragmented', message: `defragments ${step.target}: ${step.why}` };
    case 'Disarm':
      return {
        type: 'Normal',
        reason: step.reason,
        message: `disarms ${step.alarms.map(({ alarm, memberId }) => `${alarm} of ${memberId}`).join(', ')}: ${step.why}`,
      };
    case 'BeginRecovery':
      return {
        type: 'Warning',
        reason: 'Recovering',
        message:
          step.stored === undefined
            ? `quorum is recovered from ${step.target} at revision ${step.revision}, as the claim consents: cluster ${step.clusterID} is given up, and what only the others had`
            : `quorum is recovered from snapshot ${step.stored.name === undefined ? step.source : `${step.stored.name} (${step.source})`}, as the claim consents: once the snapshot is verified, cluster ${step.clusterID} is given up, and what was written since`,
      };
    case 'Fence':
      return {
        type: 'Normal',
        reason: 'Recovering',
        message: `Pods of the lost cluster are ended, their volumes stay: ${step.pods.map(({ name }) => name).join(', ')}`,
      };
    case 'AdvanceRecovery':
      return step.to === 'fencing'
        ? {
            type: 'Normal',
            reason: 'Recovering',
            message: `the snapshot is verified and restored beside the lost cluster, at revision ${step.revision}`,
          }
        : undefined;
    case 'CompleteRecovery':
      return {
        type: 'Normal',
        reason: 'Recovering',
        message: `the recovered cluster is ${step.clusterID}, at revision ${step.revision}; watches of older revisions are told that they are compacted; ${step.lost}`,
      };
    case 'AbandonRecovery':
      return { type: 'Warning', reason: 'RecoveryRefused', message: `the recovery is given up: ${step.why}` };
    case 'RetireLost':
      return {
        type: 'Normal',
        reason: 'Settled',
        message: `the cluster is whole: volumes of the one whose place it took go once all members have equal data: ${step.volumes.map(({ name }) => name).join(', ')}`,
      };
    case 'BeginRestoreInPlace':
      return {
        type: 'Normal',
        reason: 'RestoreVerifying',
        message: `EtcdRestore ${step.restore.name}: ${step.uri} is restored onto a new volume and opened there; the cluster serves its own data meanwhile`,
      };
    case 'PrepareElsewhere':
      return {
        type: 'Warning',
        reason: 'NodeLost',
        message: `${step.why}: the snapshot is restored anew elsewhere; the cluster serves its own data meanwhile`,
      };
    case 'AbandonRestore':
      return step.done
        ? undefined
        : { type: 'Warning', reason: 'Restoring', message: `the restore begins anew: ${step.why}` };
    case 'RecordVerified':
      return {
        type: 'Normal',
        reason: 'RestoreVerifying',
        message: `the snapshot is good: ${step.verified.keys} keys at revision ${step.verified.revision}, SHA-256 ${step.verified.sha256}`,
      };
    case 'BeginCutOver':
      return {
        type: 'Warning',
        reason: 'Restoring',
        message: 'clients are shut out, the members are stopped and the restored one takes over; volumes stay',
      };
    case 'CompleteRestoreInPlace':
      return {
        type: 'Normal',
        reason: 'Restoring',
        message: `the restored data is served by cluster ${step.clusterID} from revision ${step.revision} on; watches of older revisions are told that they are compacted`,
      };
    case 'GiveUpRestore':
      return step.done
        ? undefined
        : {
            type: 'Warning',
            reason: step.reason,
            message: `the restore is given up, the cluster keeps its own data: ${step.why}`,
          };
    case 'MoveLeader':
      return step.why === undefined ? undefined : { type: 'Normal', reason: 'LeaderMoved', message: step.why };
    case 'Downgrade':
      return {
        type: 'Normal',
        reason: 'Downgrading',
        message:
          step.action === 'enable'
            ? `etcd is asked to write its data back for ${step.target}`
            : `the downgrade to ${step.target} is cancelled`,
      };
    case 'EnableAuth':
      return {
        type: step.again ? 'Warning' : 'Normal',
        reason: 'AuthEnabled',
        message: step.again
          ? 'authentication was turned off by somebody else: it is turned on again, as the claim says'
          : 'the cluster is whole: etcd asks for passwords from now on',
      };
    case 'DisableAuth':
      return {
        type: 'Normal',
        reason: 'AuthDisabled',
        message: 'the claim asks for it: etcd asks for no passwords any more',
      };
    case 'ChangePassword':
      return { type: 'Normal', reason: 'PasswordChanged', message: "root's password is made that of the Secret" };
    case 'UseCertificate': {
      const { what, from, authority } = step;
      // A plain renewal comes every few weeks, or every minute, and tells nobody anything.
      if (authority === undefined) return undefined;
      const words = {
        begin: '',
        widen: `Secret ${from}: ${authority} is trusted from now on as well`,
        'pass on': `Secret ${from}: everybody trusts ${authority}, members are given its certificate`,
        narrow: `Secret ${from}: every member shows the new certificate, ${authority} is not trusted any more`,
      } as const;
      return { type: 'Normal', reason: 'CaChanging', message: words[what] };
    }
    case 'LetGo':
      return { type: 'Warning', reason: 'Orphaned', message: step.why };
    case 'Teardown':
      return step.pods.length > 0 ? { type: 'Normal', reason: 'Deleting', message: step.why } : undefined;
    default:
      return undefined;
  }
};
