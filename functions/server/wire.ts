/**
 * The protobuf wire format, as much of it as Crossplane's function protocol uses. Most of a request is JSON wrapped in
 * protobuf Structs; reading and writing plain JSON directly, instead of message objects that are then converted, is what
 * keeps a call on seven members around a millisecond.
 */

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;

/** Deeper than anything Kubernetes stores, and shallow enough that a hostile request cannot exhaust the stack. */
const MAX_DEPTH = 1000;

export class WireError extends Error {
  override readonly name = 'WireError';
}

/** Strings that come again and again: names of fields, which are most of a Struct. */
const KNOWN = 2048;
const LONGEST_KNOWN = 48;
const known: (string | undefined)[] = new Array(KNOWN);

/** Reads one message. Every method throws {@link WireError} at the end of the bytes or on malformed ones. */
export class Reader {
  readonly #bytes: Buffer;
  #at = 0;
  #end: number;
  #wireType = 0;
  #depth = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#end = bytes.length;
  }

  /** The number of the next field, or 0 at the end of the message. */
  field(): number {
    if (this.#at === this.#end) return 0;
    const key = this.#varint();
    this.#wireType = key & 7;
    const number = key >>> 3;
    if (number === 0) throw new WireError('field number 0');
    return number;
  }

  /** Reads a nested message: `each` is called for every field and must read or {@link skip} it. */
  message(each: (field: number) => void): void {
    const outer = this.#enter();
    for (let field = this.field(); field !== 0; field = this.field()) each(field);
    this.#leave(outer);
  }

  string(): string {
    const length = this.#length();
    const start = this.#at;
    this.#at += length;
    return this.#bytes.toString('utf8', start, this.#at);
  }

  bytes(): Uint8Array {
    const length = this.#length();
    const start = this.#at;
    this.#at += length;
    // A copy: the request's buffer is large, and a small view into it would keep all of it alive.
    return Uint8Array.prototype.slice.call(this.#bytes, start, this.#at);
  }

  double(): number {
    this.#expect(FIXED64);
    if (this.#at + 8 > this.#end) throw new WireError('a number ends early');
    const value = this.#bytes.readDoubleLE(this.#at);
    this.#at += 8;
    return value;
  }

  bool(): boolean {
    this.#expect(VARINT);
    return this.#varint() !== 0;
  }

  /** An enum or another small unsigned number. */
  uint(): number {
    this.#expect(VARINT);
    return this.#varint();
  }

  /** Passes over a field that this program does not know. */
  skip(): void {
    switch (this.#wireType) {
      case VARINT:
        this.#varint();
        return;
      case FIXED64:
        this.#advance(8);
        return;
      case DELIMITED:
        this.#advance(this.#varint());
        return;
      case FIXED32:
        this.#advance(4);
        return;
      default:
        throw new WireError(`wire type ${this.#wireType}`);
    }
  }

  /** A google.protobuf.Struct. Members named `without`, at any depth, are passed over. */
  struct(without?: string): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    const outer = this.#enter();
    for (let field = this.field(); field !== 0; field = this.field()) {
      if (field === 1) this.#member(object, without);
      else this.skip();
    }
    this.#leave(outer);
    return object;
  }

  #member(object: Record<string, unknown>, without: string | undefined): void {
    let key = '';
    let value: unknown = null;
    const outer = this.#enter();
    for (let part = this.field(); part !== 0; part = this.field()) {
      if (part === 1) key = this.#key();
      // Every known writer puts the key first; after another order the value has been read, which is only slower.
      else if (part === 2 && key !== without) value = this.value(without);
      else this.skip();
    }
    this.#leave(outer);
    if (key !== without) put(object, key, value);
  }

  /** A google.protobuf.Value. */
  value(without?: string): unknown {
    let value: unknown = null;
    const outer = this.#enter();
    for (let field = this.field(); field !== 0; field = this.field()) {
      if (field === 3) value = this.string();
      else if (field === 5) value = this.struct(without);
      else if (field === 2) value = this.double();
      else if (field === 4) value = this.bool();
      else if (field === 6) value = this.#list(without);
      else {
        this.skip();
        if (field === 1) value = null;
      }
    }
    this.#leave(outer);
    return value;
  }

  #list(without: string | undefined): unknown[] {
    const list: unknown[] = [];
    const outer = this.#enter();
    for (let part = this.field(); part !== 0; part = this.field()) {
      if (part === 1) list.push(this.value(without));
      else this.skip();
    }
    this.#leave(outer);
    return list;
  }

  /** A string that probably came before. Finding it again is faster than making it, and makes no garbage. */
  #key(): string {
    const length = this.#length();
    const start = this.#at;
    const end = start + length;
    this.#at = end;
    if (length > LONGEST_KNOWN) return this.#bytes.toString('utf8', start, end);
    let hash = length;
    for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + (this.#bytes[at] as number)) | 0;
    const slot = (hash ^ (hash >>> 15)) & (KNOWN - 1);
    const candidate = known[slot];
    // Of equal length in both encodings and equal byte by byte: then it is ASCII throughout, and the same.
    if (candidate !== undefined && candidate.length === length) {
      let index = 0;
      while (index < length && candidate.charCodeAt(index) === this.#bytes[start + index]) index++;
      if (index === length) return candidate;
    }
    const text = this.#bytes.toString('utf8', start, end);
    known[slot] = text;
    return text;
  }

  /** Goes into a nested message; what it returns leads out again. */
  #enter(): number {
    const length = this.#length();
    if (++this.#depth > MAX_DEPTH) throw new WireError(`nested deeper than ${MAX_DEPTH}`);
    const outer = this.#end;
    this.#end = this.#at + length;
    return outer;
  }

  #leave(outer: number): void {
    this.#end = outer;
    this.#depth--;
  }

  #expect(wireType: number): void {
    if (this.#wireType !== wireType) throw new WireError(`wire type ${this.#wireType} where ${wireType} belongs`);
  }

  #length(): number {
    this.#expect(DELIMITED);
    const length = this.#varint();
    if (this.#at + length > this.#end) throw new WireError('a field is longer than its message');
    return length;
  }

  #advance(count: number): void {
    if (this.#at + count > this.#end) throw new WireError('a field is longer than its message');
    this.#at += count;
  }

  /** Up to 2^53: lengths, field keys and enums are all the protocol has. Higher bits of a ten-byte varint are lost. */
  #varint(): number {
    if (this.#at >= this.#end) throw new WireError('a number ends early');
    const first = this.#bytes[this.#at++] as number;
    if (first < 0x80) return first;
    let value = first & 0x7f;
    let scale = 128;
    for (let count = 1; count < 10; count++) {
      if (this.#at >= this.#end) throw new WireError('a number ends early');
      const byte = this.#bytes[this.#at++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw new WireError('a number is longer than ten bytes');
  }
}

/** Assigns even the key `__proto__` as data; a plain assignment would change the object's prototype and lose the value. */
export const put = <T>(object: Record<string, T>, key: string, value: T): void => {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[key] = value;
  }
};

/**
 * Writes one message from its end to its beginning: the length that precedes a nested message is known once its content
 * stands, so nothing is measured twice or moved. Callers therefore write fields in descending order.
 */
export class Writer {
  #bytes: Buffer;
  #at: number;

  constructor(capacity = 256 * 1024) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
    this.#at = capacity;
  }

  /** A copy of what was written; the writer is empty afterwards and keeps its room, so that one can serve for ever. */
  finish(): Buffer {
    const message = Buffer.from(this.#bytes.subarray(this.#at));
    this.#at = this.#bytes.length;
    return message;
  }

  /** Whatever `content` writes becomes field `field`. */
  message(field: number, content: () => void): void {
    const end = this.#written();
    content();
    this.#key(field, DELIMITED, this.#written() - end);
  }

  string(field: number, text: string): void {
    // Almost every string here is a short ASCII key or name; the loop beats two calls into the runtime for those.
    const length = text.length;
    if (length < 64) {
      this.#reserve(length);
      let at = this.#at - length;
      let index = 0;
      while (index < length) {
        const code = text.charCodeAt(index++);
        if (code > 0x7f) break;
        this.#bytes[at++] = code;
        if (index === length) {
          this.#at -= length;
          this.#key(field, DELIMITED, length);
          return;
        }
      }
    }
    const size = Buffer.byteLength(text);
    this.#reserve(size);
    this.#at -= size;
    this.#bytes.write(text, this.#at, size, 'utf8');
    this.#key(field, DELIMITED, size);
  }

  bytes(field: number, data: Uint8Array): void {
    this.#reserve(data.length);
    this.#at -= data.length;
    this.#bytes.set(data, this.#at);
    this.#key(field, DELIMITED, data.length);
  }

  double(field: number, value: number): void {
    this.#reserve(8);
    this.#at -= 8;
    this.#bytes.writeDoubleLE(value, this.#at);
    this.#varint((field << 3) | FIXED64);
  }

  /** An enum, a bool or another small unsigned number. */
  uint(field: number, value: number): void {
    this.#varint(value);
    this.#varint((field << 3) | VARINT);
  }

  /** A map in ascending order of its keys, so that equal maps are equal bytes. `write` gets the key's value. */
  map<T>(field: number, map: { readonly [key: string]: T | undefined }, write: (value: T) => void): void {
    const keys = Object.keys(map).sort();
    for (let index = keys.length - 1; index >= 0; index--) {
      const key = keys[index] as string;
      const value = map[key];
      if (value === undefined) continue;
      this.message(field, () => {
        write(value);
        this.string(1, key);
      });
    }
  }

  /** A google.protobuf.Struct as field `field`. Keys whose value is undefined are left out, as in JSON. */
  struct(field: number, object: object): void {
    this.message(field, () => {
      this.map(1, object as Record<string, unknown>, (value) => {
        this.value(2, value);
      });
    });
  }

  /** A google.protobuf.Value as field `field`. What JSON cannot say (NaN, infinities, functions) is null. */
  value(field: number, value: unknown): void {
    const end = this.#written();
    switch (typeof value) {
      case 'string':
        this.string(3, value);
        break;
      case 'number':
        if (Number.isFinite(value)) this.double(2, value);
        else this.uint(1, 0);
        break;
      case 'boolean':
        this.uint(4, value ? 1 : 0);
        break;
      case 'object':
        if (value === null) this.uint(1, 0);
        else if (Array.isArray(value)) this.#list(value);
        else this.struct(5, value);
        break;
      default:
        this.uint(1, 0);
    }
    this.#key(field, DELIMITED, this.#written() - end);
  }

  #list(list: readonly unknown[]): void {
    this.message(6, () => {
      for (let index = list.length - 1; index >= 0; index--) this.value(1, list[index]);
    });
  }

  #written(): number {
    return this.#bytes.length - this.#at;
  }

  #key(field: number, wireType: number, length: number): void {
    this.#varint(length);
    this.#varint((field << 3) | wireType);
  }

  #varint(value: number): void {
    this.#reserve(8);
    if (value < 0x80) {
      this.#bytes[--this.#at] = value;
      return;
    }
    let size = 1;
    for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) size++;
    let at = this.#at - size;
    this.#at = at;
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[at++] = (rest & 0x7f) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[at] = rest;
  }

  #reserve(count: number): void {
    if (this.#at >= count) return;
    const written = this.#written();
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, written + count));
    this.#bytes.copy(larger, larger.length - written, this.#at);
    this.#at = larger.length - written;
    this.#bytes = larger;
  }
}
