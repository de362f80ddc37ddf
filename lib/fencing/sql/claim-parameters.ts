import type { FenceClaim } from '../fence-claim.ts';

/** Three for each claim. */
export function claimParameters(
  claims: readonly FenceClaim[],
  encode = (text: string): string => text,
): readonly string[] {
  return claims.flatMap(({ key, token, holder }) => [encode(key), token, encode(holder)]);
}

/**
 * A list of SQL, with what `each` makes of the placeholders of every claim.
 * @param first the position of the first parameter
 */
export function listOfClaims(
  count: number,
  each: (key: string, token: string, holder: string) => string,
  first = 1,
): string {
  const positions = Array.from({ length: count }, (_none, index) => first + index * 3);
  return positions.map((at) => each(`$${at}`, `$${at + 1}`, `$${at + 2}`)).join(', ');
}
