import { FencedUsageError } from '../../core/errors.ts';

const SLOTS = 16_384;

/** Keys whose names stand for something else: that of the fence of another key, or of a floor. */
const TAKEN = /^#*\{[^{}]+\}$|^#+floor:\{[^{}]+\}$/;

/**
 * A key has a hash tag, or is hashed whole; so is its fence, unless a brace inside makes that impossible.
 *
 * The key x becomes {x}, so the key {x} becomes #{x}, and that one ##{x}: no two keys share a fence. As #floor:{x} may be a floor, the
 * key #floor:{x} becomes ##floor:{x}, and so on.
 *
 * @throws FencedUsageError
 */
export function hashedLike(key: string): string {
  if (!key.includes('{') && !key.includes('}')) return `{${key}}`;
  if (TAKEN.test(key)) return `#${key}`;
  if (hasTag(key)) return key;
  throw new FencedUsageError(
    `No fence can share the hash slot of ${JSON.stringify(key)}: its braces are no hash tag. Use a key such as 'seat:{12A}'.`,
    [key],
  );
}

/** The key that became this name; undefined for the name of a floor, and for what is no name of a fence. */
export function keyOfFence(name: string): string | undefined {
  if (/^\{[^{}]+\}$/.test(name)) return name.slice(1, -1);
  if (!hasTag(name) || /^#floor:\{[^{}]+\}$/.test(name)) return undefined;
  return TAKEN.test(name) ? name.slice(1) : name;
}

function hasTag(name: string): boolean {
  const open = name.indexOf('{');
  return open >= 0 && name.indexOf('}', open) > open + 1;
}

/** Of every slot, made when the first one is needed. */
let floors: readonly string[] | undefined;

/**
 * The name of the floor for this fence: there is one per hash slot, as a script on Redis Cluster reaches no other slot, and the same
 * on a single server, which may join a cluster one day.
 *
 * @param name that of a fence
 */
export function floorOf(name: string): string {
  floors ??= floorNames();
  return floors[hashSlot(name)]!;
}

/** In each slot the first number, in base 36, that is hashed to it. */
function floorNames(): readonly string[] {
  const names: string[] = Array.from({ length: SLOTS });
  for (let number = 0, left = SLOTS; left > 0; number += 1) {
    const name = `#floor:{${number.toString(36)}}`;
    const slot = hashSlot(name);
    if (names[slot] !== undefined) continue;
    names[slot] = name;
    left -= 1;
  }
  return names;
}

/** By the rules of Redis Cluster for a name with a hash tag: the CRC-16 of the tag, in its form XMODEM. */
export function hashSlot(name: string): number {
  const start = name.indexOf('{') + 1;
  const end = name.indexOf('}', start);
  let crc = 0;
  for (let at = start; at < end; at += 1) {
    const unit = name.charCodeAt(at);
    if (unit > 0x7f) return Buffer.from(name.slice(start, end)).reduce(add, 0) % SLOTS;
    crc = add(crc, unit);
  }
  return crc % SLOTS;
}

function add(crc: number, byte: number): number {
  const high = (crc >> 8) ^ byte;
  const mixed = high ^ (high >> 4);
  return ((crc << 8) ^ (mixed << 12) ^ (mixed << 5) ^ mixed) & 0xffff;
}
