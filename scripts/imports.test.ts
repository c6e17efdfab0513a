import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { forbiddenImports, importsOf, judge } from './imports.ts';

const core = 'runtime/core/plan.ts';

describe('what pure code may not hold', () => {
  const wrong: [string, string, RegExp][] = [
    ['a module of Node', `import { readFile } from 'node:fs';`, /imports node:fs/],
    [
      'a type of Node, since a signature with it is of the world',
      `import type { Stats } from 'node:fs';`,
      /imports node:fs/,
    ],
    ['a package', `import pino from 'pino';`, /imports pino/],
    ['a package for its effects', `import 'pino';`, /imports pino/],
    ['a package by dynamic import', `const etcd = await import('etcd3');`, /imports etcd3/],
    ['a package by re-export', `export * from 'yaml';`, /imports yaml/],
    ['values of kubernetes-types', `import { Pod } from 'kubernetes-types/core/v1.js';`, /imports kubernetes-types/],
    ['an import over several lines', `import {\n  a,\n  b,\n} from 'node:os';`, /imports node:os/],
    [
      'an adapter',
      `import { systemClock } from '../adapters/system-clock.ts';`,
      /runtime\/adapters\/system-clock\.ts, which is of the world/,
    ],
    ['a type of an adapter', `import type { Client } from '../adapters/kube/client.ts';`, /which is of the world/],
    [
      'the server of the functions',
      `import { options } from '../../functions/server/options.ts';`,
      /which is of the world/,
    ],
    ['the clock', 'export const now = () => Date.now();', /uses Date\.now/],
    ['the present as a date', 'export const now = () => new Date();', /uses new Date\(\)/],
    ['chance', 'export const token = () => Math.random();', /uses Math\.random/],
    ['the environment', `const debug = process.env.DEBUG; // why`, /uses process\./],
    ['timers', 'setTimeout(() => {}, 1);', /uses setTimeout\(/],
    ['output', 'console.log(1);', /uses console\./],
    ['the clock after an address on the same line', `const a = ['http://x', Date.now()];`, /uses Date\.now/],
  ];
  for (const [what, source, message] of wrong) {
    it(`finds ${what}`, () => {
      const found = judge(core, source).wrong;
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0] ?? '', message);
    });
  }

  const right: [string, string][] = [
    ['types of Kubernetes', `import type { Pod } from 'kubernetes-types/core/v1.js';`],
    [
      'names and generated types',
      `import { LABELS } from '../../api/names.ts';\nimport type { EtcdMember } from '../../api/etcdmember.gen.ts';`,
    ],
    ['its own kind', `import { plan } from './plan.ts';`],
    ['the shapes of ports', `import type { Clock } from '../ports/clock.ts';`],
    ['a given instant', 'export const date = (at: number) => new Date(at).toISOString();'],
    [
      'words about the world in comments and texts',
      `// import x from 'node:fs'; Date.now()\n/* process.exit */\nconst text = 'console.log';`,
    ],
  ];
  for (const [what, source] of right) {
    it(`allows ${what}`, () => assert.deepEqual(judge(core, source).wrong, []));
  }

  it('tells type-only imports from others, since only the others run', () => {
    assert.deepEqual(importsOf(`import type { A } from './a.ts';\nimport { type B, c } from './b.ts';`), [
      { from: './a.ts', typeOnly: true },
      { from: './b.ts', typeOnly: false },
    ]);
  });
});

describe('following imports', () => {
  it('finds the world behind a file that looks harmless, since purity is lost through any of them', async () => {
    const root = await mkdtemp(join(tmpdir(), 'etcd-operator-imports-'));
    try {
      const files = {
        'runtime/core/plan.ts': `import { b } from './b.ts';`,
        'runtime/core/b.ts': `import type { Clock } from '../ports/clock.ts';`,
        'runtime/core/plan.test.ts': `import { it } from 'node:test';`,
        'runtime/ports/clock.ts': `import { c } from '../adapters/c.ts';`,
        'functions/members/compose.ts': `import { slots } from '../composing/slots.ts';`,
        'functions/composing/slots.ts': `import { d } from './d.ts';`,
        'functions/composing/d.ts': `import { randomBytes } from 'node:crypto';`,
        'functions/server/main.ts': `import http2 from 'node:http2';`,
      };
      for (const [path, text] of Object.entries(files)) {
        await mkdir(dirname(join(root, path)), { recursive: true });
        await writeFile(join(root, path), text);
      }
      assert.deepEqual(await forbiddenImports(root), [
        'functions/composing/d.ts imports node:crypto; pure code takes nothing from packages but types of kubernetes-types',
      ]);
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  });

  it('fails where it finds nothing to look at, since a moved folder would otherwise pass for ever', async () => {
    const root = await mkdtemp(join(tmpdir(), 'etcd-operator-imports-'));
    try {
      await mkdir(join(root, 'functions'));
      await mkdir(join(root, 'runtime/core'), { recursive: true });
      await assert.rejects(forbiddenImports(root), /no pure file/);
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  });

  it('finds nothing in this repository', async () => {
    assert.deepEqual(await forbiddenImports(join(import.meta.dirname, '..')), []);
  });
});
