/** `agent decrypt`: for a person with the stored object and the keys, and without an operator. */
import { createReadStream } from 'node:fs';
import { type SavedSnapshot, saveDatabase } from './saved-snapshot.ts';
import { unsealed } from './sealed-database.ts';
import { keysIn } from './snapshot-keys.ts';

export const decryptFile = async (of: {
  readonly keys: string;
  readonly from: string;
  readonly to: string;
}): Promise<SavedSnapshot> => {
  const keys = await keysIn(of.keys);
  return saveDatabase(unsealed(createReadStream(of.from, { highWaterMark: 1024 * 1024 }), { keys }), of.to);
};
