/**
 * Random pictures of a cluster, in the notation of world.ts: a counterexample can be read, and pasted into a scenario.
 * Most of what they show is consistent, so that every rule is reached; the rest contradicts itself in every way that the
 * notation can express.
 */
import fc from 'fast-check';

const LETTERS = ['a', 'b', 'c', 'd', 'e'] as const;
const letter = (ordinal: number): string => LETTERS[ordinal] ?? 'z';
const present = (ordinal: number): string => letter(ordinal).repeat(5);
const former = (ordinal: number): string => `${letter(ordinal)}xxxx`;
const id = (ordinal: number): string => `${letter(ordinal)}1`;

/** `often` nearly always, otherwise one of `others`. */
const mostly = <T>(often: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(often) }, { weight: 2, arbitrary: fc.constantFrom(often, ...others) });
const maybe = (word: string, weight = 1): fc.Arbitrary<string> =>
  fc.oneof({ weight: 8, arbitrary: fc.constant('') }, { weight, arbitrary: fc.constant(word) });
const words = (...parts: readonly fc.Arbitrary<string>[]): fc.Arbitrary<string> =>
  fc.tuple(...parts).map((all) => all.filter((word) => word !== '').join(' '));

const pod = (ordinal: number): fc.Arbitrary<string> =>
  fc
    .tuple(
      words(
        fc.constant('pod'),
        mostly(present(ordinal), former(ordinal)),
        mostly('running', 'crashed', '', 'waiting=ImagePullBackOff'),
        maybe('failed'),
        maybe('deleting'),
        mostly('ready', ''),
        mostly('voter', ''),
        mostly('proven', '', 'proven-before'),
        mostly('', 'new', 'joining', 'strange', 'unconfigured'),
        maybe('outdated'),
        mostly('', 'owner=claim-0'),
        mostly('', 'host=gone', 'host=off', 'host=30', 'host=3000'),
      ),
      mostly(
        `answers c1/${id(ordinal)}@9 leader=a1`,
        '',
        `answers c1/${id(ordinal)}@9`,
        `answers c1/${id(ordinal)}@3 leader=b1`,
        `answers c2/${id(ordinal)}@9 leader=a1`,
        `answers c1/f1@9 leader=f1`,
        `answers c1/${id(ordinal)}@9 leader=a1 learner`,
      ),
    )
    .map(([text, answers]) => (answers === '' || !text.includes('running') ? text : `${text} | ${answers}`));

const volume = (ordinal: number): fc.Arbitrary<string> =>
  words(
    fc.constant('volume'),
    mostly(present(ordinal), former(ordinal)),
    mostly(`id=${id(ordinal)}`, '', 'id=f1', 'id=a1'),
    mostly('', 'cluster=c1', 'cluster=c2'),
    mostly('', 'floor=5', 'floor=100'),
    maybe('deleting'),
    maybe('pending'),
    mostly('', 'home=ready', 'home=gone', 'home=30', 'home=3000'),
  );

const distinct = (things: readonly string[]): string[] => [
  ...new Map(things.map((thing) => [thing.split(' ').slice(0, 2).join(' '), thing])).values(),
];

const slot = (ordinal: number): fc.Arbitrary<string> =>
  fc
    .tuple(
      words(
        fc.constant(`slot ${ordinal}`),
        maybe('deleting', 2),
        maybe('dropped'),
        maybe('unfinalized'),
        maybe('retry'),
        mostly(`inc=${present(ordinal)}`, '', `inc=${former(ordinal)}`),
        mostly(`id=${id(ordinal)}`, '', 'id=f1'),
        mostly('', 'cluster=c1', 'cluster=c2'),
        mostly('phase=Voter', '', 'phase=Removed', 'phase=Failed reason=ForeignData', 'phase=Learner', 'phase=Pending'),
        mostly(`begun=${present(ordinal)}`, '', `begun=${former(ordinal)}`),
        mostly('', 'claim=claim-0'),
      ),
      fc.oneof(
        { weight: 5, arbitrary: fc.tuple(pod(ordinal)) },
        { weight: 1, arbitrary: fc.array(pod(ordinal), { maxLength: 2 }) },
      ),
      fc.oneof(
        { weight: 5, arbitrary: fc.tuple(volume(ordinal)) },
        { weight: 1, arbitrary: fc.array(volume(ordinal), { maxLength: 2 }) },
      ),
    )
    .map(([head, pods, volumes]) => [head, ...distinct(pods), ...distinct(volumes)].join(' | '));

const entry = (ordinal: number): fc.Arbitrary<string> =>
  fc
    .tuple(
      mostly(present(ordinal), former(ordinal)),
      mostly(id(ordinal), 'f1', `${letter(ordinal)}9`),
      mostly('', '/learner', '/unstarted', '/learner/unstarted'),
    )
    .map(([token, member, flags]) => `${ordinal}-${token}=${member}${flags}`);

const list = (size: number): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 1, arbitrary: fc.constant('list unknown') },
    {
      weight: 4,
      arbitrary: fc
        .tuple(
          fc.tuple(...Array.from({ length: size }, (_, ordinal) => fc.option(entry(ordinal), { freq: 8 }))),
          fc.option(entry(4), { freq: 1 }),
          maybe('of=c2'),
        )
        .map(([entries, stranger, of]) =>
          [
            'list',
            ...new Map(
              [...entries, stranger].filter((one) => one !== null).map((one) => [/=(\w+)/.exec(one)?.[1], one]),
            ).values(),
            of === '' ? 'of=c1' : of,
          ].join(' '),
        ),
    },
  );

const operation: fc.Arbitrary<string> = fc
  .tuple(
    fc.constantFrom('AddMember', 'RemoveMember', 'ReplaceMember', 'Defragment'),
    fc.integer({ min: 0, max: 4 }),
    fc.boolean(),
    fc.boolean(),
  )
  .map(
    ([kind, ordinal, withID, withToken]) =>
      `operation ${kind} demo-${ordinal}${withID ? ` id=${id(ordinal)}` : ''}${withToken ? ` inc=${kind === 'AddMember' ? present(ordinal) : former(ordinal)}` : ''}`,
  );

export const pictures: fc.Arbitrary<string> = fc.integer({ min: 1, max: 5 }).chain((size) =>
  fc
    .tuple(
      mostly('', 'shape memory', 'shape retain', 'shape retention=5x', 'shape version=9.9.9'),
      mostly('latch c1', '', 'latch c2'),
      mostly(`want ${size}`, 'want 0', 'want 1', 'want 3', 'want 5'),
      mostly('', 'claim unknown', 'claim gone', 'claim deleting', 'claim uid=claim-2', 'claim cluster=c1'),
      mostly('', 'namespace unknown', 'namespace terminating'),
      mostly('', 'record missing', 'record orphaned', 'record of=claim-0', 'record owner=claim-0'),
      fc.option(
        fc
          .tuple(fc.constantFrom(present, former), maybe('abandoned="it was lost"', 3))
          .map(([token, abandoned]) =>
            [
              'attempt 1',
              ...Array.from({ length: size }, (_, ordinal) => `${ordinal}-${token(ordinal)}`),
              abandoned,
            ].join(' '),
          ),
        { freq: 1 },
      ),
      fc.option(operation, { freq: 1 }),
      list(size),
      fc.option(fc.constantFrom('budget 2', 'budget 3', 'budget 2 owner=claim-0', 'budget 2 deleting'), { freq: 2 }),
      fc.tuple(...Array.from({ length: size }, (_, ordinal) => fc.option(slot(ordinal), { freq: 12 }))),
    )
    .map(([shape, ...rest]) =>
      [shape, ...rest.slice(0, -1), ...(rest.at(-1) as (string | null)[])]
        .filter((line) => line !== null && line !== '')
        .join('\n'),
    ),
);
