import type {
  AcquireReply,
  ExtendReply,
  InspectReply,
  JoinReply,
  ReleaseReply,
} from '../../core/nodes/lock-node.ts';
import { unexpectedReply } from './node-failure.ts';

/** Replies of the scripts to replies of the port. What none of our scripts can return is a failure, never a vote. */

const UNJOINED = Object.freeze({ kind: 'unjoined' } as const);
const ACCEPTED = Object.freeze({ kind: 'accepted' } as const);
const LOST = Object.freeze({ kind: 'lost' } as const);

/** `keys`: how many the request had. */
export function parseAcquireReply(reply: unknown, keys: number): AcquireReply {
  if (reply === 1) return ACCEPTED;
  if (Array.isArray(reply)) {
    const [code, first, second, third, index] = reply as unknown[];
    switch (shapeOf(code, reply.length)) {
      case '0/5':
        if (
          isPttl(first) &&
          isDigits(second) &&
          typeof third === 'string' &&
          isIndex(index, keys)
        ) {
          const floor = Number(second);
          return { kind: 'held', index, remainingMs: first, floor, holder: third };
        }
        break;
      case '-1/4':
        if (isDigits(first) && isCount(second) && (third === 0 || third === 1)) {
          return { kind: 'stale', floor: Number(first), nowMicros: second, byClock: third === 1 };
        }
        break;
      case '-2/2':
        if (isCount(first)) return { kind: 'quarantined', remainingMs: first };
        break;
      case '-3/3':
        if (isCount(first) && isDigits(second)) {
          return { kind: 'ahead', nowMicros: first, floor: Number(second) };
        }
        break;
      case '-4/1':
        return UNJOINED;
    }
  }
  return unexpectedReply('acquire', reply);
}

export function parseExtendReply(reply: unknown): ExtendReply {
  if (Array.isArray(reply)) {
    const [code, first] = reply as unknown[];
    switch (shapeOf(code, reply.length)) {
      case '1/2':
        if (isCount(first)) return { kind: 'extended', recreated: first };
        break;
      case '0/1':
        return LOST;
      case '-2/2':
        if (isCount(first)) return { kind: 'quarantined', remainingMs: first };
        break;
      case '-4/1':
        return UNJOINED;
    }
  }
  return unexpectedReply('extend', reply);
}

export function parseReleaseReply(reply: unknown): ReleaseReply {
  if (isCount(reply)) return { kind: 'released', deleted: reply };
  if (Array.isArray(reply) && reply.length === 2) {
    const [deleted, listeners] = reply as unknown[];
    if (isCount(deleted) && isCount(listeners)) return { kind: 'released', deleted, listeners };
  }
  return unexpectedReply('release', reply);
}

export function parseJoinReply(reply: unknown): JoinReply {
  if (Array.isArray(reply) && reply.length === 2) {
    const [code, value] = reply as unknown[];
    if (code === 1 && isCount(value)) return { kind: 'joined', quarantineMs: value };
    if (code === -5 && isCount(value)) return { kind: 'disagree', floorRetentionMs: value };
  }
  return unexpectedReply('join', reply);
}

export function parseInspectReply(reply: unknown): InspectReply {
  if (Array.isArray(reply) && reply.length === 3) {
    const [remainingMs, floor, holder] = reply as unknown[];
    if (isPttl(remainingMs) && isDigits(floor) && (holder === null || typeof holder === 'string')) {
      return { kind: 'inspected', holder, remainingMs, floor: Number(floor) };
    }
  }
  return unexpectedReply('inspect', reply);
}

/** Code and length; a code that is no number matches nothing. */
function shapeOf(code: unknown, length: number): string {
  return typeof code === 'number' ? `${code}/${length}` : '';
}

/** All numbers of the protocol are integers from 0 to 2^53 - 1. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Floors come as text, because ioredis 6 rounds integers near 2^53. */
function isDigits(value: unknown): value is string {
  return typeof value === 'string' && /^\d{1,16}$/.test(value) && isCount(Number(value));
}

function isIndex(value: unknown, length: number): value is number {
  return isCount(value) && value < length;
}

function isPttl(value: unknown): value is number {
  return value === -1 || isCount(value);
}
