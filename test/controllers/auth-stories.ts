/** Stories of passwords: turned on and off, changed by whom and when, and known to nobody. */
import assert from 'node:assert/strict';
import { inUseName, LABELS, ROLE_VOTER } from '../../api/names.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';
import type { Story } from './stories.ts';
import { both, bringCertificates, formedWithTls as formed } from './tls-secrets.ts';
import { condition } from './tls-stories.ts';

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

const bring = (stage: Stage, data: Readonly<Record<string, string>>, type = 'kubernetes.io/basic-auth'): void => {
  stage.store.put(resources.secrets, { metadata: { name: 'root', namespace: NAMESPACE }, type, data } as never);
};

export const password = (stage: Stage, text: string): void =>
  bring(stage, { username: base64('root'), password: base64(text) });

export const forget = (stage: Stage, name: string): void => {
  stage.store.delete({ resource: resources.secrets, namespace: NAMESPACE, name });
};

export const wanted = { auth: { enabled: true, rootCredentialsSecretRef: { name: 'root' } } };
const unwanted = { auth: { enabled: false, rootCredentialsSecretRef: { name: 'root' } } };

/** Whether who comes with each of these passwords, or with none, may do everything. */
export const takes = (stage: Stage, ...passwords: readonly (string | undefined)[]): Promise<boolean[]> => {
  const [url = ''] = stage.pods.map(({ metadata }) => stage.kubelet.clientURL(metadata.name));
  return Promise.all(
    passwords.map((text) =>
      stage.etcd.clients
        .dial({
          url,
          tls: { ca: new Uint8Array(), certificate: new Uint8Array(), key: new Uint8Array() },
          ...(text === undefined ? {} : { auth: { username: 'root', password: text } }),
        })
        .authStatus()
        .then(
          (status) => status !== 'onForOthers',
          () => false,
        ),
    ),
  );
};

const inForce = (stage: Stage, text: string): Promise<void> =>
  stage.until(
    async (s) => (await takes(s, text, undefined)).join() === 'true,false' && s.last?.decision.step.do === 'Settled',
    `${text} is in force`,
  );

export const told = (stage: Stage, reason: string): Promise<void> =>
  stage.until((s) => condition(s, 'Stalled')?.reason === reason, `it says ${reason}`);

export const kept = (stage: Stage): Record<string, string> | undefined =>
  stage.get(resources.secrets, inUseName(CLUSTER, 'root'))?.data;

/** A Pod that is deleted comes back and serves. */
const healed = async (stage: Stage): Promise<void> => {
  const { name, uid } = stage.podOf(1).metadata;
  stage.remove(resources.pods, name);
  await stage.until(
    ({ pods, quorum }) =>
      pods.length === 3 && pods.every(({ metadata }) => metadata.uid !== uid) && quorum?.status?.readyMembers === 3,
    'three serve again',
  );
};

const asking = async (stage: Stage): Promise<void> => {
  await formed(stage);
  password(stage, 'first');
  stage.edit(wanted);
  await stage.until(({ quorum }) => quorum?.status?.authEnabled === true, 'it is on');
  await stage.settled();
};

const untold = (stage: Stage, ...passwords: readonly string[]): void => {
  const { quorum, claim, members, pods, announced, diary, writes } = stage;
  const all = JSON.stringify([quorum, claim, members, pods, announced, diary, writes]);
  for (const text of passwords) assert.ok(!all.includes(text) && !all.includes(base64(text)), `${text} is told`);
};

export const authStories: readonly Story[] = [
  {
    name: 'asks for passwords once the cluster is whole, follows the Secret to another one, and stops when asked',
    before: formed,
    play: async (stage) => {
      password(stage, 'sesame-one');
      stage.edit(wanted);
      await inForce(stage, 'sesame-one');
      password(stage, 'sesame-two');
      await inForce(stage, 'sesame-two');
      assert.deepEqual(kept(stage), { password: base64('sesame-two'), former: base64('["sesame-one"]') });
      stage.edit(unwanted);
      await stage.until(({ quorum }) => quorum?.status?.authEnabled === false, 'it is off');
      await stage.settled();
    },
    ends: async (stage) => {
      assert.deepEqual(await takes(stage, undefined), [true]);
      untold(stage, 'sesame-one', 'sesame-two');
    },
  },
  {
    name: 'adds and removes members while etcd asks for passwords',
    before: asking,
    play: async (stage) => {
      stage.edit({ replicas: 4 });
      await stage.settled();
      stage.edit({ replicas: 3 });
      await stage.settled();
    },
    ends: async (stage) => assert.deepEqual(await takes(stage, 'first', undefined), [true, false]),
  },
  {
    name: 'opens a voter to clients again that was started anew while a learner waits, which could not log in without it',
    before: async (stage) => {
      bringCertificates(stage);
      password(stage, 'first');
      stage.apply({ replicas: 1, tls: both, ...wanted });
      await stage.until(({ quorum }) => quorum?.status?.authEnabled === true, 'it is on');
      await stage.settled();
    },
    play: async (stage) => {
      stage.kubelet.refuse(/^demo-1-/);
      stage.edit({ replicas: 3 });
      await stage.until(({ pods }) => pods.length === 2, 'a learner waits for a node');
      stage.kubelet.kill(stage.podOf(0).metadata.name);
      await stage.until(
        (now) =>
          now.podOf(0).status?.containerStatuses?.[0]?.restartCount === 1 &&
          now.podOf(0).metadata.labels?.[LABELS.role] === ROLE_VOTER,
        'the voter serves clients again',
      );
      stage.kubelet.refuse(undefined);
      await stage.settled();
    },
    ends: async (stage) => assert.equal((await stage.membership())?.members.length, 3),
  },
  {
    name: 'follows a Secret that is edited while no runtime runs, also where the one before died between etcd and the Secret',
    before: asking,
    play: async (stage) => {
      stage.away(5_000);
      password(stage, 'second');
      await inForce(stage, 'second');
      stage.between(async (call, happen) => {
        const answer = await happen();
        if (call.what !== 'userChangePassword') return answer;
        stage.between(undefined);
        stage.away(5_000);
        password(stage, 'fourth');
        return answer;
      });
      password(stage, 'third');
      await inForce(stage, 'fourth');
    },
    // Data of each time may come back.
    ends: async (stage) =>
      assert.deepEqual(kept(stage), { password: base64('fourth'), former: base64('["third","second","first"]') }),
    // It brings its own death.
    immortal: true,
  },
  {
    name: 'says what is wrong with the Secret, looks after the members all the same, and goes on by itself',
    before: asking,
    play: async (stage) => {
      bring(stage, { username: base64('root') });
      await told(stage, 'SecretIncomplete');
      bring(stage, { username: base64('root'), password: '' });
      await told(stage, 'SecretIncomplete');
      bring(stage, { password: base64('second') }, 'kubernetes.io/tls');
      await told(stage, 'SecretWrongType');
      forget(stage, 'root');
      await told(stage, 'SecretMissing');
      // The one that was in force lets the runtime in.
      await healed(stage);
      password(stage, 'second');
      await inForce(stage, 'second');
    },
    ends: async (stage) => assert.deepEqual(await takes(stage, 'first'), [false]),
  },
  {
    name: 'says that nothing lets it in where its own Secret is lost as well, leaves the members alone, and goes on when it is',
    before: asking,
    play: async (stage) => {
      forget(stage, inUseName(CLUSTER, 'root'));
      password(stage, 'unheard-of');
      stage.away(5_000);
      await told(stage, 'AuthCredentialsRejected');
      assert.notEqual(stage.quorum?.status?.phase, 'QuorumLost');
      assert.equal(stage.pods.length, 3);
      password(stage, 'first');
      await stage.settled();
      assert.deepEqual(kept(stage), { password: base64('first') });
    },
    ends: async (stage) => assert.deepEqual(await takes(stage, 'first'), [true]),
    // A Secret that is made again from what the process remembered would be no loss.
    immortal: true,
  },
  {
    name: 'says that etcd asks for passwords of which the claim says nothing, and takes the cluster in when it does',
    before: formed,
    play: async (stage) => {
      const [url] = stage.pods.map(({ metadata }) => stage.kubelet.clientURL(metadata.name));
      stage.etcd.enableAuth(url ?? '', { root: 'theirs' });
      await told(stage, 'AuthRequiredNotConfigured');
      password(stage, 'theirs');
      stage.edit(wanted);
      await stage.until(({ quorum }) => quorum?.status?.authEnabled === true, 'it is taken in');
      await stage.settled();
    },
    ends: async (stage) => assert.deepEqual(kept(stage), { password: base64('theirs') }),
  },
  {
    name: 'asks whether to go on where the claim says nothing of passwords any more, and looks after the members meanwhile',
    before: asking,
    play: async (stage) => {
      stage.edit({ auth: null });
      forget(stage, 'root');
      await told(stage, 'AuthRequiredNotConfigured');
      await healed(stage);
      stage.edit({ auth: { enabled: false } });
      await stage.until(({ quorum }) => quorum?.status?.authEnabled === false, 'it is off');
      await stage.settled();
    },
    ends: async (stage) => assert.deepEqual(await takes(stage, undefined), [true]),
  },
  {
    name: 'turns passwords on again that somebody else turned off, and says so',
    before: asking,
    play: async (stage) => {
      const [url] = stage.pods.map(({ metadata }) => stage.kubelet.clientURL(metadata.name));
      stage.etcd.disableAuth(url ?? '');
      await inForce(stage, 'first');
    },
    ends: async (stage) => {
      const event = stage.announced.find(({ message }) => message.includes('turned off by somebody else'));
      assert.equal(event?.type, 'Warning');
    },
  },
  {
    name: 'sends no password to members in the clear, and says how to get out of it',
    before: async (stage) => {
      stage.apply({ replicas: 3 });
      await stage.settled();
    },
    play: async (stage) => {
      const [url] = stage.pods.map(({ metadata }) => stage.kubelet.clientURL(metadata.name));
      stage.etcd.enableAuth(url ?? '', { root: 'theirs' });
      await told(stage, 'AuthRequiredNotConfigured');
      assert.match(condition(stage, 'Stalled')?.message ?? '', /etcdctl auth disable/);
      stage.etcd.disableAuth(url ?? '');
      await stage.settled();
    },
  },
];
