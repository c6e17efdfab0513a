/** Kubernetes quantities, exactly: as integers of billionths, since `100m` and even `1n` are legal for memory too. */

const UNIT = 10n ** 9n;
const FRACTIONS: Record<string, bigint> = { n: 10n ** 9n, u: 10n ** 6n, m: 10n ** 3n };
const BINARY = ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const DECIMAL = ['k', 'M', 'G', 'T', 'P', 'E'];

/** Billionths, or undefined when the text is no quantity or finer than that. */
const parse = (quantity: string | number): bigint | undefined => {
  const match = /^\+?(\d{0,30})(?:\.(\d{0,30}))?([num]|[kMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?$/.exec(String(quantity));
  if (match === null) return undefined;
  const [, whole = '', fraction = '', suffix = ''] = match;
  if (whole === '' && fraction === '') return undefined;
  let numerator = BigInt(whole + fraction) * UNIT;
  let denominator = 10n ** BigInt(fraction.length);
  if (Object.hasOwn(FRACTIONS, suffix)) denominator *= FRACTIONS[suffix] ?? 1n;
  else if (BINARY.includes(suffix)) numerator *= 1024n ** BigInt(BINARY.indexOf(suffix) + 1);
  else if (DECIMAL.includes(suffix)) numerator *= 1000n ** BigInt(DECIMAL.indexOf(suffix) + 1);
  else if (suffix !== '') {
    const exponent = Number(suffix.slice(1));
    if (exponent >= 0) numerator *= 10n ** BigInt(exponent);
    else denominator *= 10n ** BigInt(-exponent);
  }
  return numerator % denominator === 0n ? numerator / denominator : undefined;
};

/** The largest binary unit that says it exactly, as people write memory. */
const format = (billionths: bigint): string => {
  if (billionths % UNIT !== 0n) {
    for (const [suffix, parts] of [
      ['m', 10n ** 3n],
      ['u', 10n ** 6n],
    ] as const) {
      if (billionths % (UNIT / parts) === 0n) return `${billionths / (UNIT / parts)}${suffix}`;
    }
    return `${billionths}n`;
  }
  let value = billionths / UNIT;
  let unit = '';
  for (const next of BINARY) {
    if (value === 0n || value % 1024n !== 0n) break;
    value /= 1024n;
    unit = next;
  }
  return `${value}${unit}`;
};

/** `a + b`, or undefined when either is not a quantity. */
export const sum = (a: string | number, b: string | number): string | undefined => {
  const left = parse(a);
  const right = parse(b);
  return left === undefined || right === undefined ? undefined : format(left + right);
};

/** Whether two quantities are the same amount, as `1Gi` and `1024Mi` are. False when either is not a quantity. */
export const isEqual = (a: string | number, b: string | number): boolean => {
  const left = parse(a);
  return left !== undefined && left === parse(b);
};

/** One spelling for each amount, and what is no quantity as it was written. */
export const oneSpelling = (quantity: string | number): string => {
  const amount = parse(quantity);
  return amount === undefined ? String(quantity) : format(amount);
};
