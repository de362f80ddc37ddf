import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  InspectReply,
  JoinReply,
  ReleaseReply,
  RevokeReply,
  WaitReply,
} from '../../core/nodes/lock-node.ts';
import { unexpectedReply } from './node-failure.ts';

/** The replies of the scripts to replies of the port. What none of our scripts can return is a failure, never a vote. */

const UNJOINED = Object.freeze({ kind: 'unjoined' } as const);
const ACCEPTED = Object.freeze({ kind: 'accepted' } as const);
const NO_FIELDS: readonly unknown[] = [];
const LOST = Object.freeze({ kind: 'lost' } as const);

export function parseAcquireReply(
  reply: unknown,
  { names }: Pick<AcquireRequest, 'names'>,
): AcquireReply {
  if (reply === 1) return ACCEPTED;
  const fields = fieldsOf(reply);
  const [code, first, second, third, index] = fields;
  if (code === 0 && fields.length === 5) {
    const isHeld =
      isPttl(first) && isDigits(second) && isCount(index) && 2 * index < names.pairs.length;
    if (isHeld && typeof third === 'string')
      return { kind: 'held', index, remainingMs: first, floor: Number(second), holder: third };
  } else if (code === -1 && fields.length === 4) {
    if (isDigits(first) && isCount(second) && (third === 0 || third === 1))
      return { kind: 'stale', floor: Number(first), nowMicros: second, byClock: third === 1 };
  } else if (code === -3 && fields.length === 3) {
    if (isCount(first) && isDigits(second))
      return { kind: 'ahead', nowMicros: first, floor: Number(second) };
  }
  return parseNoVote(fields) ?? unexpectedReply('acquire', reply);
}

export function parseExtendReply(reply: unknown): ExtendReply {
  const fields = fieldsOf(reply);
  const [code, recreated] = fields;
  if (code === 1 && fields.length === 2 && isCount(recreated))
    return { kind: 'extended', recreated };
  if (code === 0 && fields.length === 1) return LOST;
  if (code === 0 && fields.length === 2 && typeof recreated === 'string')
    return { kind: 'lost', revoked: recreated };
  return parseNoVote(fields) ?? unexpectedReply('extend', reply);
}

function parseNoVote(fields: readonly unknown[]) {
  const [code, remainingMs] = fields;
  if (code === -2 && fields.length === 2 && isCount(remainingMs))
    return { kind: 'quarantined', remainingMs } as const;
  return code === -4 && fields.length === 1 ? UNJOINED : undefined;
}

export function parseReleaseReply(reply: unknown): ReleaseReply {
  return isCount(reply) ? { kind: 'released', deleted: reply } : unexpectedReply('release', reply);
}

export function parseWaitReply(reply: unknown): WaitReply {
  const [ticket, freeInMs, ...more] = fieldsOf(reply);
  if (isDigits(ticket, /^-?\d{1,16}$/) && isPttl(freeInMs) && more.length === 0)
    return { kind: 'waiting', ticket: Number(ticket), freeInMs };
  return unexpectedReply('wait', reply);
}

/** The parts of the answer to JOIN that stay on this side of the port. */
interface JoinedStart {
  /** Names the start of the server that was joined. */
  readonly start: string;
  /** Names voting scripts that it should know; or empty. */
  readonly salt: string;
}

export function parseJoinReply(
  reply: unknown,
): (Extract<JoinReply, { kind: 'joined' }> & JoinedStart) | Exclude<JoinReply, { kind: 'joined' }> {
  const [code, first, second, third, others, upMs, ...more] = fieldsOf(reply);
  if (code === 1 && isCount(first) && isWord(second) && isWord(third) && Array.isArray(others)) {
    const isJoined =
      [8, 48].includes(second.length) && others.every((each) => typeof each === 'string');
    const found = { quarantineMs: first, server: second.slice(0, 8), start: second, salt: third };
    const rest = { ...(others.length > 0 && { others }), ...(isCount(upMs) && { upMs }) };
    const isWhole = isCount(upMs ?? 0) && more.length === 0;
    if (isJoined && isWhole) return { kind: 'joined', ...found, ...rest };
  }
  if (code === -5 && isCount(first) && isCount(second) && isCount(third) && others === undefined)
    return { kind: 'disagree', versions: [first, second], floorRetentionMs: third };
  return unexpectedReply('join', reply);
}

/** Accepts letters and digits, or nothing: the text becomes part of a script. */
function isWord(value: unknown): value is string {
  return typeof value === 'string' && /^\w*$/.test(value);
}

export function parseInspectReply(reply: unknown): InspectReply {
  const [remainingMs, floor, holder, process, ...more] = fieldsOf(reply);
  if (isPttl(remainingMs) && isDigits(floor) && isText(holder) && isText(process) && !more.length)
    return { kind: 'inspected', holder, remainingMs, floor: Number(floor), process };
  return unexpectedReply('inspect', reply);
}

export function parseRevokeReply(reply: unknown): RevokeReply {
  if (reply === null || isCount(reply)) return { kind: 'revoked', remainingMs: reply };
  const [code, limit, ...more] = fieldsOf(reply);
  if (code === -1 && isDigits(limit) && more.length === 0)
    return { kind: 'outnumbered', limit: Number(limit) };
  return unexpectedReply('revoke', reply);
}

function fieldsOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : NO_FIELDS;
}

/** Numbers of the protocol are all integers from 0 to 2^53 - 1. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Floors come as text, because ioredis 6 rounds integers near 2^53. */
function isDigits(value: unknown, form = /^\d{1,16}$/): value is string {
  return typeof value === 'string' && form.test(value) && isCount(Math.abs(Number(value)));
}

function isText(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function isPttl(value: unknown): value is number {
  return value === -1 || isCount(value);
}
