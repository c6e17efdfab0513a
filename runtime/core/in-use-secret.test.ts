import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formerPasswords, rootData } from './in-use-secret.ts';

test("root's passwords are kept when others take their place, the last eight of them, and each once", () => {
  const inForce = (held: Parameters<typeof rootData>[0], password: string) => {
    const { former, ...rest } = rootData(held, { password });
    return { ...rest, former: formerPasswords(former) };
  };
  assert.deepEqual(rootData({}, { next: 'a' }), { next: 'a' }, 'there is none before the first');
  assert.deepEqual(
    rootData({ password: 'b', former: ['a'] }, { password: 'a', next: 'b' }),
    { password: 'a', next: 'b' },
    'the data has become older than the last change',
  );
  let held = inForce({}, 'p0');
  for (let n = 1; n < 12; n++) held = inForce(held, `p${n}`);
  assert.deepEqual(held, { password: 'p11', former: ['p10', 'p9', 'p8', 'p7', 'p6', 'p5', 'p4', 'p3'] });
  assert.deepEqual(
    inForce(held, 'p9').former,
    ['p11', 'p10', 'p8', 'p7', 'p6', 'p5', 'p4', 'p3'],
    'back to one of them',
  );
});

test('what is no list of passwords is none', () => {
  for (const text of [undefined, '', 'secret', '{}', '[1, ""]']) assert.deepEqual(formerPasswords(text), []);
});
