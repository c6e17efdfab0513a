/** Which part of all that can happen is gone through. Each is small enough to be seen whole, or nearly. */
import type { Budget, Sweep } from './explorer.ts';

const settled = (replicas: number, how = ''): readonly string[] => [`claim replicas=${replicas}${how}`, 'run'];

const DATA_FAULTS = ['restart %', 'wipe % ended', 'delete pod %', 'delete volume %'] as const;
const NODE_FAULTS = ['lose %', 'cut %', 'lag %', 'fail %'] as const;
const RECORD_FAULTS = ['delete quorum', 'delete member %', 'foreign % ended'] as const;

const sweep = (
  name: string,
  prelude: readonly string[],
  budget: Budget,
  { faults = [], edits = [] }: { readonly faults?: readonly string[]; readonly edits?: readonly string[] } = {},
): Sweep => ({ name, prelude, budget, faults, edits });

/** From the smallest to the largest; a run with a limit of time takes its share of each. */
export const sweeps: readonly Sweep[] = [
  sweep(
    'bootstrap of 1',
    ['claim replicas=1'],
    { deaths: 1, faults: 1, jumps: 1 },
    { faults: [...DATA_FAULTS, 'delete quorum', 'delete member %'] },
  ),
  sweep('bootstrap of 3', ['claim replicas=3'], { deaths: 1, faults: 1 }, { faults: DATA_FAULTS }),
  sweep(
    'bootstrap that is resized, with old views',
    ['claim replicas=2'],
    { edits: 1, late: 1, deaths: 1 },
    { edits: ['claim replicas=1', 'claim replicas=3'] },
  ),
  sweep(
    'bootstrap in memory',
    ['claim replicas=3 memory'],
    { deaths: 1, faults: 1 },
    { faults: ['restart %', 'delete pod %', 'fail %'] },
  ),
  sweep(
    '1 to 2, with deaths',
    settled(1),
    { edits: 1, deaths: 1, faults: 1 },
    { edits: ['claim replicas=2'], faults: [...DATA_FAULTS, ...NODE_FAULTS] },
  ),
  sweep(
    '1 to 2 and back, with old views',
    settled(1),
    { edits: 2, late: 1 },
    { edits: ['claim replicas=2', 'claim replicas=1'] },
  ),
  sweep(
    '3 to 2 to 1, with deaths',
    settled(3),
    { edits: 2, deaths: 1 },
    { edits: ['claim replicas=2', 'claim replicas=1'] },
  ),
  sweep(
    '3 to 5',
    settled(3),
    { edits: 1, faults: 1 },
    { edits: ['claim replicas=5'], faults: ['restart %', 'lose %', 'cut %'] },
  ),
  sweep(
    '5 to 3',
    settled(5),
    { edits: 1, faults: 1 },
    { edits: ['claim replicas=3'], faults: ['restart %', 'lose %'] },
  ),
  sweep('3 with faults of data', settled(3), { faults: 2, deaths: 1 }, { faults: DATA_FAULTS }),
  sweep('3 with faults of nodes', settled(3), { faults: 2, jumps: 1 }, { faults: NODE_FAULTS }),
  sweep('3 with faults of records', settled(3), { faults: 2, deaths: 1 }, { faults: RECORD_FAULTS }),
  sweep(
    '3 in memory',
    settled(3, ' memory'),
    { faults: 1, deaths: 1, edits: 1 },
    { faults: ['restart %', 'delete pod %', 'lose %', 'cut %'], edits: ['claim replicas=2'] },
  ),
  sweep(
    '3 paused and resumed',
    settled(3),
    { edits: 2, deaths: 1, faults: 1 },
    { edits: ['claim replicas=0', 'claim replicas=3', 'claim replicas=1'], faults: ['delete volume %', 'restart %'] },
  ),
  sweep(
    '3 rolled and upgraded',
    settled(3, ' version=3.5.35'),
    { edits: 2, faults: 1, deaths: 1 },
    { edits: ['claim version=3.6.16', 'claim template=2', 'claim version=3.5.35'], faults: ['restart %', 'cut %'] },
  ),
  sweep(
    '3 with old views',
    settled(3),
    { late: 2, edits: 1, faults: 1 },
    { edits: ['claim replicas=2', 'claim template=2'], faults: ['restart %', 'delete pod %'] },
  ),
];

/** The sweep that a person puts together by options. */
export const sweepOf = (size: number, budget: Budget): Sweep =>
  sweep(`${size} members`, settled(size), budget, {
    faults: [...DATA_FAULTS, ...NODE_FAULTS, ...RECORD_FAULTS],
    edits: [
      ...[0, 1, 2, 3, 5].filter((n) => n !== size).map((n) => `claim replicas=${n}`),
      'claim version=3.6.17',
      'claim template=2',
    ],
  });
