import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  folderContent,
  type ImageContent,
  nodeRuntimeFiles,
  sharedLibraries,
  writeImageArchive,
} from './image-archive.ts';

const scratchFolders: string[] = [];

// An image of Node is 120 MB.
after(() => {
  for (const folder of scratchFolders) rmSync(folder, { recursive: true, force: true });
});

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'image-archive-'));
  scratchFolders.push(folder);
  return folder;
}

const small: ImageContent = {
  names: ['example.org/team/thing:v1', 'example.org/team/thing:latest'],
  files: [
    { path: '/usr/bin/thing', content: 'program', mode: 0o755 },
    { path: '/etc/thing.conf', content: 'a = 1\n' },
  ],
  links: [{ path: '/bin/thing', target: '/usr/bin/thing' }],
  folders: [{ path: '/data', mode: 0o700 }],
  entrypoint: ['/usr/bin/thing'],
  cmd: ['serve'],
  env: { MODE: 'x' },
  user: '65532',
  workdir: '/data',
};

/** Unpacks the archive with the machine's own tar, which knows nothing of this writer. */
function unpack(archive: string): {
  manifest: unknown;
  config: Record<string, unknown>;
  layers: string[];
  folder: string;
} {
  const folder = scratch();
  execFileSync('tar', ['-xf', archive, '-C', folder]);
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as [
    { Config: string; RepoTags: string[]; Layers: string[] },
  ];
  return {
    folder,
    manifest,
    config: JSON.parse(readFileSync(join(folder, manifest[0].Config), 'utf8')) as Record<string, unknown>,
    layers: manifest[0].Layers,
  };
}

test('an archive holds the files, links, folders and settings it was given, as another tar reads them', async () => {
  const out = join(scratch(), 'image.tar');
  await writeImageArchive(out, small);
  const { manifest, config, layers, folder } = unpack(out);
  const [only] = manifest as [{ RepoTags: string[] }];
  assert.deepEqual(only.RepoTags, small.names);
  const [layer] = layers;
  assert.ok(layer);
  const listing = execFileSync('tar', ['-tvf', join(folder, layer), '--numeric-owner'], { encoding: 'utf8' });
  const shown = listing
    .trim()
    .split('\n')
    .map((line) => line.replace(/\s+/g, ' ').replace(/ \d{4}-\d\d-\d\d \d\d:\d\d /, ' '));
  assert.deepEqual(shown, [
    'drwxr-xr-x 0/0 0 bin/',
    'lrwxrwxrwx 0/0 0 bin/thing -> /usr/bin/thing',
    'drwx------ 0/0 0 data/',
    'drwxr-xr-x 0/0 0 etc/',
    '-rw-r--r-- 0/0 6 etc/thing.conf',
    'drwxrwxrwt 0/0 0 tmp/',
    'drwxr-xr-x 0/0 0 usr/',
    'drwxr-xr-x 0/0 0 usr/bin/',
    '-rwxr-xr-x 0/0 7 usr/bin/thing',
  ]);
  assert.deepEqual(config.config, {
    Entrypoint: ['/usr/bin/thing'],
    Cmd: ['serve'],
    Env: ['MODE=x', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
    User: '65532',
    WorkingDir: '/data',
  });
});

test('the layer digest in the configuration is the SHA-256 of the layer, because image stores verify it', async () => {
  const out = join(scratch(), 'image.tar');
  await writeImageArchive(out, { ...small, below: [{ files: [{ path: '/lib/base', content: 'base' }] }] });
  const { config, layers, folder } = unpack(out);
  const digests = layers.map(
    (layer) =>
      `sha256:${createHash('sha256')
        .update(readFileSync(join(folder, layer)))
        .digest('hex')}`,
  );
  assert.equal(digests.length, 2);
  assert.deepEqual((config.rootfs as { diff_ids: string[] }).diff_ids, digests);
});

test('the same content gives the same bytes whatever the order, times and permissions of the sources, so images can be compared', async () => {
  const folder = scratch();
  const source = join(folder, 'source');
  writeFileSync(source, 'same');
  const first = join(folder, 'first.tar');
  const second = join(folder, 'second.tar');
  const files = [
    { path: '/b', from: source },
    { path: '/a', content: 'a' },
  ];
  await writeImageArchive(first, { names: ['x:1'], files });
  utimesSync(source, 1, 1);
  chmodSync(source, 0o600);
  await writeImageArchive(second, { names: ['x:1'], files: files.toReversed() });
  assert.deepEqual(readFileSync(second), readFileSync(first));
});

test('a change of one byte gives another archive, or the comparison above would prove nothing', async () => {
  const folder = scratch();
  const [first, second] = [join(folder, 'first.tar'), join(folder, 'second.tar')] as const;
  await writeImageArchive(first, { names: ['x:1'], files: [{ path: '/a', content: 'a' }] });
  await writeImageArchive(second, { names: ['x:1'], files: [{ path: '/a', content: 'b' }] });
  assert.notDeepEqual(readFileSync(second), readFileSync(first));
});

test('names and link targets longer than a tar header survive, because module paths are long', async () => {
  const out = join(scratch(), 'image.tar');
  const split = `/${'folder/'.repeat(20)}file`;
  const long = `/${'n'.repeat(180)}`;
  const target = `/${'t'.repeat(150)}`;
  await writeImageArchive(out, {
    names: ['x:1'],
    files: [
      { path: split, content: 'split' },
      { path: long, content: 'long' },
    ],
    links: [{ path: '/link', target }],
  });
  const { layers, folder } = unpack(out);
  const listing = execFileSync('tar', ['-tvf', join(folder, layers[0] ?? '')], { encoding: 'utf8' });
  assert.match(listing, new RegExp(` ${split.slice(1)}\n`));
  assert.match(listing, new RegExp(` ${long.slice(1)}\n`));
  assert.match(listing, new RegExp(` link -> ${target}\n`));
});

test('two entries for one path are refused, because which of them wins would be chance', async () => {
  const out = join(scratch(), 'image.tar');
  const files = [
    { path: '/a', content: '1' },
    { path: '/x/../a', content: '2' },
  ];
  await assert.rejects(writeImageArchive(out, { names: ['x:1'], files }), /two entries of the image claim/);
  await assert.rejects(
    writeImageArchive(out, {
      names: ['x:1'],
      files: [
        { path: '/a', content: '' },
        { path: '/a/b', content: '' },
      ],
    }),
    /\/a\/b lies below \/a, which is not a folder/,
  );
});

test('a failed write leaves nothing behind, so that half an image is never loaded', async () => {
  const folder = scratch();
  await assert.rejects(
    writeImageArchive(join(folder, 'image.tar'), {
      names: ['x:1'],
      files: [{ path: '/a', from: join(folder, 'absent') }],
    }),
    /ENOENT/,
  );
  assert.deepEqual(readdirSync(folder), []);
});

test('a folder becomes files and links below its place in the image', async () => {
  const folder = scratch();
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(folder, 'sub', 'file'), 'x');
  symlinkSync('file', join(folder, 'sub', 'link'));
  assert.deepEqual(await folderContent('/crds', folder), {
    files: [{ path: '/crds/sub/file', from: join(folder, 'sub', 'file') }],
    links: [{ path: '/crds/sub/link', target: 'file' }],
  });
});

test("ldd's lines give the libraries with a path and leave out the kernel's own", () => {
  const printed = [
    '\tlinux-vdso.so.1 (0x00007ffc5e9f4000)',
    '\tlibdl.so.2 => /lib/x86_64-linux-gnu/libdl.so.2 (0x00007f2b8a1f0000)',
    '\t/lib64/ld-linux-x86-64.so.2 (0x00007f2b8a200000)',
  ].join('\n');
  assert.deepEqual(sharedLibraries(printed), ['/lib/x86_64-linux-gnu/libdl.so.2', '/lib64/ld-linux-x86-64.so.2']);
  assert.throws(() => sharedLibraries('\tlibz.so.1 => not found'), /libz\.so\.1 => not found/);
});

test('the node of this process runs from what nodeRuntimeFiles lists, with nothing else of the machine', async (t) => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    t.skip('changing the root folder needs root on Linux');
    return;
  }
  const out = join(scratch(), 'node.tar');
  await writeImageArchive(out, { names: ['x:1'], files: await nodeRuntimeFiles(process.execPath) });
  const { layers, folder } = unpack(out);
  const root = scratch();
  execFileSync('tar', ['-xf', join(folder, layers[0] ?? ''), '-C', root]);
  const printed = execFileSync('chroot', [root, '/usr/local/bin/node', '-p', 'process.version'], { encoding: 'utf8' });
  assert.equal(printed.trim(), process.version);
});
