// Tokens have 16 digits, and neighbours share the first ones: what differs is shown strong, the rest dim.
import { element } from './elements.js';

/** Digits that are always shown strong, so that a number does not change its look when another one appears. */
const STRONG = 9;
/** Thin, and no place for a line break. */
const GAP = '\u202f';

/** Number of strong digits of these tokens: more than {@link STRONG} when they differ before. */
export function strongDigits(tokens) {
  const [first = '', ...others] = tokens;
  let shared = 0;
  while (shared < first.length && others.every((other) => other[shared] === first[shared])) {
    shared += 1;
  }
  return Math.max(STRONG, others.length > 0 ? first.length - shared : 0);
}

/** `…497 097 177` */
export function shortToken(token, strong = STRONG) {
  if (token === undefined) return '–';
  const groups = token.slice(-strong).replace(/\B(?=(\d{3})+$)/g, GAP);
  return token.length > strong ? `…${groups}` : groups;
}

/** Digits, all of them, the shared ones dim. */
export function wholeToken(token, strong = STRONG) {
  return [
    element('span', { className: 'shared', textContent: token.slice(0, -strong) }),
    element('b', { textContent: token.slice(-strong) }),
  ];
}

export function showWholeToken(target, token, strong) {
  if (target.textContent !== token) target.replaceChildren(...wholeToken(token, strong));
}
