import fc from 'fast-check';

/** Names with which something else went wrong before: prototypes, protocols, patterns, our own names, other bytes. */
const NOTORIOUS_KEYS: readonly string[] = [
  '__proto__',
  'constructor',
  'prototype',
  'hasOwnProperty',
  'toString',
  'valueOf',
  'then',
  'undefined',
  'null',
  'NaN',
  '0',
  '-0',
  ' ',
  '\t',
  '\n',
  '\0',
  'a\0b',
  'a\r\nb',
  'x\r\n*1\r\n$8\r\nFLUSHALL\r\n',
  '$-1\r\n',
  '*0\r\n',
  ':1\r\n',
  '{',
  '}',
  '{}',
  '{a}',
  '}a{',
  '{a}{b}',
  '{{a}}',
  '*',
  '?',
  '[a-z]',
  '\\',
  '%00',
  '%s%n',
  "'; DROP TABLE fence; --",
  '")) return 1 --',
  '${process.env}',
  '{0}',
  'fence:a',
  'a#floor:a',
  'a#floor',
  'b:#marker',
  'b#probe',
  'marker',
  '../../etc/passwd',
  '\u202Eabc',
  '\uFEFFa',
  'a\u200B',
  '😀',
  '\uFFFD',
  'ﬀ',
  'İ',
  'ı',
  'K', // the Kelvin sign, which lower-cases to k
  'a'.repeat(1_024),
  '\u{1F600}'.repeat(512),
];

/** Code units, also halves of surrogate pairs. */
const codeUnit = fc.nat({ max: 0xffff }).map((code) => String.fromCharCode(code));

const strange = fc.oneof(
  fc.constantFrom(...NOTORIOUS_KEYS),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }),
  fc.string({ unit: codeUnit, minLength: 1, maxLength: 40 }),
  fc
    .uint8Array({ minLength: 1, maxLength: 60 })
    .map((bytes) => Buffer.from(bytes).toString('latin1')),
  fc.string({
    unit: fc.constantFrom('{', '}', ':', '#', '*', '\r', '\n', '\0', ' ', 'a', '\u0301', 'é'),
    minLength: 1,
    maxLength: 20,
  }),
);

/** Any string that might be given as a key: also those that are refused. */
export const anyKey: fc.Arbitrary<string> = strange;

/** Whether a lock may have this key, in other words than those of lib. */
export function isGoodKey(key: string): boolean {
  const isReserved =
    ['#marker', '#probe'].some((end) => key.endsWith(end)) ||
    key.startsWith('#') ||
    key.includes('#floor:');
  return key !== '' && key.length <= 1_024 && !isReserved && !/[\uD800-\uDFFF]/u.test(key);
}

/** Keys that are accepted. */
const goodKey: fc.Arbitrary<string> = strange.filter(isGoodKey);

/** Accepted keys that went wrong before. */
export const GOOD_NOTORIOUS_KEYS: readonly string[] = NOTORIOUS_KEYS.filter(isGoodKey);

const TWINS: readonly ((key: string) => string)[] = [
  (key) => key.normalize('NFC'),
  (key) => key.normalize('NFD'),
  (key) => key.normalize('NFKC'),
  (key) => key.normalize('NFKD'),
  (key) => key.toLowerCase(),
  (key) => key.toUpperCase(),
  (key) => key.trim(),
  (key) => `${key} `,
  (key) => `${key}\0`,
  (key) => `${key}\n`,
  (key) => encodeURIComponent(key),
  (key) => `{${key}}`,
  (key) => `fence:${key}`,
  (key) => JSON.stringify(key),
];

/** Two different keys that something careless would take for the same one. */
export const twinKeys: fc.Arbitrary<readonly [string, string]> = fc
  .tuple(
    fc.oneof(goodKey, fc.constantFrom('é', 'e\u0301', 'Å', 'A\u030A', 'ﬀ', 'straße', 'ñ {x} ')),
    fc.constantFrom(...TWINS),
  )
  .map(([key, twin]) => [key, twin(key)] as const)
  .filter(([key, twin]) => key !== twin && isGoodKey(key) && isGoodKey(twin));
