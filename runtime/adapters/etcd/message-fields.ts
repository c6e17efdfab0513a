/**
 * The fields of a protobuf message by number. etcd3's decoder drops what its protocol files do not know, so what 3.6
 * added to old answers (storageVersion, dbSizeQuota, downgradeInfo, hash_revision) is read from the bytes beside it.
 */

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

export type MessageFields = {
  /** Undefined where the message has no such number; proto3 sends no zeros. */
  number(field: number): bigint | undefined;
  text(field: number): string | undefined;
  /** A message within the message. */
  message(field: number): MessageFields | undefined;
};

/** Numbers are read as unsigned 64 bits; of a repeated field the last one stands. Throws a RangeError on other bytes. */
export const messageFields = (message: Uint8Array): MessageFields => {
  const numbers = new Map<number, bigint>();
  const strings = new Map<number, Uint8Array>();
  let at = 0;

  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = message[at];
      at += 1;
      if (byte === undefined) break;
      value |= BigInt(byte & 0x7f) << shift;
      if ((byte & 0x80) === 0) return BigInt.asUintN(64, value);
    }
    throw new RangeError('a number in the message does not end');
  };
  const take = (bytes: bigint): Uint8Array => {
    const end = at + Number(bytes);
    if (end > message.length) throw new RangeError('a field is longer than the message');
    const field = message.subarray(at, end);
    at = end;
    return field;
  };

  while (at < message.length) {
    const tag = varint();
    const field = Number(tag >> 3n);
    const kind = Number(tag & 7n);
    if (kind === VARINT) numbers.set(field, varint());
    else if (kind === BYTES) strings.set(field, take(varint()));
    else if (kind === FIXED64) take(8n);
    else if (kind === FIXED32) take(4n);
    else throw new RangeError(`field ${field} is of unknown kind ${kind}`);
  }

  return {
    number: (field) => numbers.get(field),
    text: (field) => {
      const bytes = strings.get(field);
      return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
    },
    message: (field) => {
      const bytes = strings.get(field);
      return bytes === undefined ? undefined : messageFields(bytes);
    },
  };
};
