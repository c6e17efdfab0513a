import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { placeData, wasPlaced } from './placed-data.ts';

const folder = await mkdtemp(join(tmpdir(), 'placed-data-'));
after(() => rm(folder, { recursive: true, force: true }));

const restored = async (work: string, content: string): Promise<void> => {
  await mkdir(join(work, 'restored/member/snap'), { recursive: true });
  await writeFile(join(work, 'restored/member/snap/db'), content);
};

describe('restored data of a member in memory', () => {
  test('is put in place once, and what etcd has written since stays when its Pod begins again', async () => {
    const work = join(folder, 'disk');
    const to = join(folder, 'memory', 'demo-0-aaaaa');
    await mkdir(join(folder, 'memory'));
    await restored(work, 'as restored');
    assert.equal(await wasPlaced(work), false);
    assert.equal(await placeData(work, to), 'now');
    await writeFile(join(to, 'member/snap/db'), 'written since');

    await restored(work, 'as restored');
    assert.equal(await placeData(work, to), 'before');
    assert.equal(await readFile(join(to, 'member/snap/db'), 'utf8'), 'written since');
    await restored(work, 'as restored');
  });

  test('is not put in place a second time after the memory was lost: the member would forget what it promised', async () => {
    const work = join(folder, 'disk');
    const to = join(folder, 'memory', 'demo-0-aaaaa');
    await rm(to, { recursive: true });
    await assert.rejects(placeData(work, to), /ended with it; it is not restored a second time/);
  });

  test('is begun again where the step died in its middle, since etcd had not started yet', async () => {
    const work = join(folder, 'other-disk');
    const to = join(folder, 'memory', 'demo-1-bbbbb');
    await mkdir(join(`${to}.part`, 'member'), { recursive: true });
    await mkdir(join(to, 'member'), { recursive: true });
    await restored(work, 'as restored');
    assert.equal(await placeData(work, to), 'now');
    assert.equal(await readFile(join(to, 'member/snap/db'), 'utf8'), 'as restored');
  });
});
