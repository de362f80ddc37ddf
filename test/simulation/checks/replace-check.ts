import type { RevokeReply, RevokeRequest } from '../../../lib/core/nodes/lock-node.ts';
import { broke, type RunContext } from '../world/run-context.ts';

/** A call for a key, from its beginning to the end of its work. */
export interface KeyCall {
  readonly process: string;
  readonly replaces: boolean;
  readonly calledAtMs: number;
  /** When a quorum knew its bid. */
  bidAtMs: number;
  /** Its token, once it was granted. */
  token: number | undefined;
  endedAtMs: number;
}

/** Begins to watch a call; undefined in families in which none replaces another. */
export function watchCall(
  run: RunContext,
  process: string,
  replaces: boolean,
): KeyCall | undefined {
  if (run.plan.habits.replaces === undefined) return undefined;
  const calledAtMs = run.world.nowMs;
  const open = { bidAtMs: Infinity, token: undefined, endedAtMs: Infinity };
  const call: KeyCall = { process, replaces, calledAtMs, ...open };
  run.calls.push(call);
  return call;
}

/**
 * The newest wins: one whose bid a quorum knew before another was called never comes after it, unless the clocks of so many servers
 * have refused numbers since then that it may have drawn a new one.
 */
export function checkNewest(run: RunContext, call: KeyCall): void {
  const { servers, plan } = run;
  const isOlder = (other: KeyCall): boolean => call.bidAtMs < other.calledAtMs;
  const keepsNumber = ({ calledAtMs }: KeyCall): boolean =>
    servers.filter(({ refusedByClockAtMs }) => refusedByClockAtMs > calledAtMs).length <=
    servers.length - plan.quorum;
  const newer = run.calls.find(
    (other) =>
      other.replaces &&
      isOlder(other) &&
      keepsNumber(other) &&
      (other.token ?? Infinity) < call.token!,
  );
  if (call.replaces && newer !== undefined)
    broke(run, 'older-won', `${describeCall(call)} after ${describeCall(newer)}`);
}

/** Who is told of a newer call was not alone. */
export function checkOvertaken(run: RunContext, call: KeyCall): void {
  const isBeside = (other: KeyCall): boolean => other !== call && other.endedAtMs > call.calledAtMs;
  if (!run.calls.some(isBeside)) broke(run, 'overtaken-by-nobody', describeCall(call));
}

/** Notes when a quorum knows the bid of the call of this process that waits. */
export class BidWatch {
  readonly #known = new Map<RevokeRequest, { readonly call: KeyCall | undefined; nodes: number }>();

  constructor(
    private readonly run: RunContext,
    private readonly process: string,
    private readonly quorum: number,
  ) {}

  sending(request: RevokeRequest): void {
    if (this.#known.has(request)) return;
    const isMeant = ({ process, replaces, token, endedAtMs }: KeyCall): boolean =>
      process === this.process && replaces && token === undefined && endedAtMs === Infinity;
    this.#known.set(request, { call: this.run.calls.findLast(isMeant), nodes: 0 });
  }

  answered(request: RevokeRequest, reply: RevokeReply): void {
    const bid = this.#known.get(request);
    if (bid?.call === undefined || reply.kind !== 'revoked' || reply.remainingMs === null) return;
    bid.nodes += 1;
    if (bid.nodes === this.quorum)
      bid.call.bidAtMs = Math.min(bid.call.bidAtMs, this.run.world.nowMs);
  }
}

function describeCall({ process, calledAtMs, bidAtMs, token }: KeyCall): string {
  const times = `called at ${calledAtMs.toFixed(3)} ms, bid known at ${bidAtMs.toFixed(3)} ms`;
  return `the call of ${process} ${times}, token ${token}`;
}
