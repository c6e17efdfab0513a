/**
 * Client-side encryption of a stored database: one header, then chunks of AES-256-GCM in the STREAM construction. Each chunk
 * is authenticated with its place and with whether it is the last, so that none can be changed, left out, added or moved, and
 * a stream that was cut is not taken for a shorter one. It is read and written as it flows: memory is two chunks.
 *
 *     etcd-operator.cozystack.io/sealed/v1\n
 *     {"keyID":"…","name":"…","salt":"…"}\n
 *     chunk 0, chunk 1, … each 1 MiB of database and 16 bytes of tag, the last one shorter or as long
 *
 * The chunks' key is HKDF-SHA-256 of the Secret's key, with the salt, for the bytes of the header: it is used for this object
 * alone, so counting nonces never repeat under it, and a header that was changed gives another key.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { inPieces } from '../adapters/in-pieces.ts';
import type { SnapshotKey, SnapshotKeys } from './snapshot-keys.ts';

const MAGIC = 'etcd-operator.cozystack.io/sealed/v1\n';
const CIPHER = 'aes-256-gcm';
const CHUNK_BYTES = 1024 * 1024;
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const SALT_BYTES = 32;
const LONGEST_HEADER = 4_096;

/** What is stored cannot be opened, or must not be believed: what it is, and what to do. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

/** No key at hand opens it. */
export class KeyMissing extends Error {
  override readonly name = 'KeyMissing';
}

/** It is not sealed, though whoever reads it expects it to be. */
export class NotSealed extends Error {
  override readonly name = 'NotSealed';
}

/** Eleven bytes of number, one byte that is 1 for the last chunk. */
const nonceOf = (chunk: number, last: boolean): Buffer => {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUIntBE(chunk, NONCE_BYTES - 7, 6);
  nonce[NONCE_BYTES - 1] = Number(last);
  return nonce;
};

const chunkKey = (key: SnapshotKey, salt: Uint8Array, header: Uint8Array): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', key.secret, salt, header, 32));

/** @param name the file name that the object gets: under another one it is not opened */
export async function* sealed(
  database: AsyncIterable<Uint8Array>,
  { key, name }: { readonly key: SnapshotKey; readonly name: string },
): AsyncGenerator<Uint8Array, void, undefined> {
  const salt = randomBytes(SALT_BYTES);
  const header = Buffer.from(`${MAGIC}${JSON.stringify({ keyID: key.id, name, salt: salt.toString('base64') })}\n`);
  yield header;
  const secret = chunkKey(key, salt, header);
  let number = 0;
  for await (const { bytes, last } of inPieces(database, CHUNK_BYTES, 1)) {
    const cipher = createCipheriv(CIPHER, secret, nonceOf(number, last), { authTagLength: TAG_BYTES });
    yield cipher.update(bytes);
    cipher.final();
    yield cipher.getAuthTag();
    number += 1;
  }
}

type Header = {
  readonly bytes: Uint8Array;
  readonly keyID: string;
  readonly name: string;
  readonly salt: Uint8Array;
};

const headerOf = (bytes: Uint8Array): Header => {
  const line = Buffer.from(bytes).toString('utf8').slice(MAGIC.length);
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new SealBroken('its header cannot be read: it was altered; take another snapshot');
  }
  const { keyID, name, salt } = (value ?? {}) as Record<string, unknown>;
  if (typeof keyID !== 'string' || typeof name !== 'string' || typeof salt !== 'string') {
    throw new SealBroken('its header is not whole: it was altered; take another snapshot');
  }
  return { bytes, keyID, name, salt: Buffer.from(salt, 'base64') };
};

/** The header, and what came with it. */
const readHeader = async (source: AsyncIterator<Uint8Array>): Promise<{ header: Header; rest: Uint8Array }> => {
  let seen = Buffer.alloc(0);
  for (;;) {
    const magic = Math.min(seen.length, MAGIC.length);
    if (seen.toString('latin1', 0, magic) !== MAGIC.slice(0, magic)) {
      throw new NotSealed(
        'it is not encrypted, and encryption.keySecretRef names keys for it: take encryption out of the source if that is the snapshot you mean; if it was stored encrypted, it was exchanged',
      );
    }
    const end = seen.indexOf(0x0a, MAGIC.length);
    if (end >= 0) return { header: headerOf(seen.subarray(0, end + 1)), rest: seen.subarray(end + 1) };
    if (seen.length > LONGEST_HEADER) throw new SealBroken('its header has no end: it was altered');
    const next = await source.next();
    if (next.done === true) {
      throw seen.length < MAGIC.length
        ? new SealBroken('it is too short to be a database, encrypted or not: name another object')
        : new SealBroken('it ends within its header: it was cut');
    }
    seen = Buffer.concat([seen, next.value]);
  }
};

type Opening = {
  readonly keys: SnapshotKeys;
  /** The file name under which it was found; absent where that does not matter, as for a person who has a copy. */
  readonly name?: string;
};

const keyFor = (header: Header, { keys, name }: Opening): Uint8Array => {
  const key = keys.find(header.keyID);
  if (key === undefined) {
    throw new KeyMissing(
      `it is encrypted with key ${header.keyID}, and the Secret holds ${keys.ids.join(', ')}: add that key to the Secret under a name of its own`,
    );
  }
  if (name !== undefined && name !== header.name) {
    throw new SealBroken(
      `it was stored as ${header.name} and lies under ${name}: it was exchanged or renamed; put it back under its own name, or take another snapshot`,
    );
  }
  return chunkKey(key, header.salt, header.bytes);
};

const openChunk = (secret: Uint8Array, number: number, last: boolean, piece: Uint8Array): Uint8Array => {
  const end = piece.length - TAG_BYTES;
  if (end < 0) throw new SealBroken(`it ends within chunk ${number}: it was cut; take another snapshot`);
  const cipher = createDecipheriv(CIPHER, secret, nonceOf(number, last), { authTagLength: TAG_BYTES });
  cipher.setAuthTag(piece.subarray(end));
  const opened = cipher.update(piece.subarray(0, end));
  try {
    cipher.final();
  } catch {
    throw new SealBroken(
      `chunk ${number} is not what was stored there: it was altered, cut or exchanged; take another snapshot`,
    );
  }
  return opened;
};

/**
 * The database within. Throws {@link KeyMissing}, {@link NotSealed} or {@link SealBroken}; every byte that was passed on
 * before that was authentic, but only the end tells that it was all.
 */
export async function* unsealed(
  stored: AsyncIterable<Uint8Array>,
  opening: Opening,
): AsyncGenerator<Uint8Array, void, undefined> {
  const source = stored[Symbol.asyncIterator]();
  try {
    const { header, rest } = await readHeader(source);
    const secret = keyFor(header, opening);
    async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
      yield rest;
      yield* { [Symbol.asyncIterator]: () => source };
    }
    let number = 0;
    for await (const { bytes, last } of inPieces(chunks(), CHUNK_BYTES + TAG_BYTES, 1)) {
      yield openChunk(secret, number, last, bytes);
      number += 1;
    }
  } finally {
    // Whoever is not read to its end holds a connection or a file.
    await source.return?.();
  }
}
