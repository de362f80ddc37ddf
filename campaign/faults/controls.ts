import type { Edit } from '../../test/support/program.ts';
import { MUTANTS } from '../../test/simulation/mutants/mutants.ts';
import type { CampaignViolation } from './judge/verdict.ts';

/** The code broken on purpose, and the schedule in which the campaign has to notice it. */
export interface Control {
  readonly name: string;
  readonly claim: string;
  readonly schedule: string;
  readonly edits: readonly Edit[];
  /** The rules by at least one of which it must be caught. */
  readonly caughtBy: readonly CampaignViolation['rule'][];
  /** Whether it belongs to the selection for every change. */
  readonly quick?: true;
}

type Rules = Control['caughtBy'];

const OVERLAP: Rules = ['overlapping-validity', 'legitimate-holder-refused'];
const TOKENS: Rules = ['duplicate-token', 'decreasing-token'];

/** A mutant of the simulation, on real servers. */
function mutant(name: string, schedule: string, caughtBy: Rules, more: Partial<Control> = {}) {
  const found = MUTANTS.find((each) => each.name === name);
  if (!found) throw new Error(`There is no mutant '${name}' in test/simulation/mutants/mutants.ts`);
  return { name, claim: found.claim, edits: found.edits, schedule, caughtBy, ...more };
}

/** A control that changes one place of the code. */
function broken(
  name: string,
  { file, find, replace, ...facts }: Omit<Control, 'name' | 'edits'> & Edit,
): Control {
  return { name, ...facts, edits: [{ file, find, replace }] };
}

/** Checks that find nothing in these would be worth nothing. */
export const CONTROLS: readonly Control[] = [
  mutant('no-guard', 'majority FLUSHALL', [...OVERLAP, 'granted-during-guard'], {
    quick: true,
  }),
  mutant('quorum-one-short', 'servers divided between workers', OVERLAP),
  mutant('no-early-loss', 'clocks of a majority jump ahead', OVERLAP),
  mutant('wall-clock', 'clocks of workers jump', [...OVERLAP, 'late-loss', 'untold-loss']),
  mutant('no-elapsed-check', 'slow near the ttl', [...OVERLAP, 'expired-grant']),
  mutant('abandoned-votes-stay', 'contention', ['idle-too-long']),
  broken('exclusion-inside-a-process-only', {
    claim: 'servers forget who holds a lock whenever somebody asks for it',
    schedule: 'contention',
    caughtBy: OVERLAP,
    file: 'lib/redis/scripts.ts',
    find: 'local holder, ttl = A[2], A[3]',
    replace: "for i = 2, #K, 2 do call('DEL', K[i]) end local holder, ttl = A[2], A[3]",
  }),
  broken('tokens-of-wall-clocks', {
    claim: 'the locks are right, and tokens come from clocks that differ between processes',
    schedule: 'clocks of workers jump',
    caughtBy: TOKENS,
    file: 'campaign/faults/worker/worker.ts',
    find: '{ ...options, ttl: ttlMs,',
    replace: '{ ...options, tokens: { issue: async () => Date.now() }, ttl: ttlMs,',
  }),
  broken('script-without-ballot-check', {
    claim: 'servers accept every ballot',
    schedule: 'clocks of workers jump',
    caughtBy: TOKENS,
    file: 'lib/redis/scripts.ts',
    find: '#floor == 33 and A[1] > floor',
    replace: '#floor == 33',
  }),
  broken('script-without-holder-check', {
    claim: 'a release deletes a lock, no matter who holds it',
    schedule: 'worker stopped',
    caughtBy: OVERLAP,
    file: 'lib/redis/scripts.ts',
    find: "local isOwn = value == holder or leaves and value == '#' .. mark",
    replace: 'local isOwn = value',
  }),
  broken('fence-takes-everything', {
    claim: 'the resource takes stale writes',
    schedule: 'stopped between check and write',
    caughtBy: ['stale-write-accepted', 'lost-update'],
    file: 'lib/fencing/sql/advance-fence.ts',
    find: 'if (token !== claim.token || holder !== claim.holder) {',
    replace: "if (token === '') {",
    quick: true,
  }),
  broken('close-leaves-connections', {
    claim: 'close does not end the connections',
    schedule: 'baseline',
    caughtBy: ['does-not-exit'],
    file: 'lib/redis/redis-lock-node.ts',
    find: 'await Promise.all([this.#commands.close(), this.#subscriber.close()]);',
    replace: 'await this.#subscriber.close();',
  }),
  broken('locks-without-ttl', {
    claim: 'locks stay after their holder died',
    schedule: 'worker killed',
    caughtBy: ['leaked-key', 'idle-too-long', 'slow-recovery'],
    file: 'lib/redis/scripts.ts',
    find: "call('SET', K[3], holder, 'PX', ttl, 'NX')",
    replace: "call('SET', K[3], holder, 'NX')",
  }),
  broken('raw-errors', {
    claim: 'an outage ends in an error without type',
    schedule: 'majority frozen',
    caughtBy: ['raw-error'],
    file: 'lib/core/waiting/verdict.ts',
    find: 'return unavailable(answer.causes());',
    replace: "throw new Error('Connection is closed.');",
  }),
  broken('late-answers-not-looked-for', {
    claim: 'a blocked event loop is taken for servers that do not answer',
    schedule: 'event loop blocked during votes',
    caughtBy: ['false-outage'],
    file: 'lib/core/deadlines.ts',
    find: 'if (this.#background)',
    replace: 'if (nowMs > -Infinity)',
  }),
  broken('no-heartbeat', {
    claim: 'nothing looks after idle connections',
    schedule: 'rare callers, connections forgotten',
    caughtBy: ['false-outage', 'broken-promise'],
    file: 'lib/redis/connection/heartbeat.ts',
    find: 'this.#wait(() => this.#connection.ping(), PING_AFTER_MS * share);',
    replace: 'void [PING_AFTER_MS, share];',
  }),
  broken('silent-connection-kept', {
    claim: 'a connection for votes on which nothing arrives any more is kept',
    schedule: 'command connections forgotten',
    caughtBy: ['broken-promise'],
    file: 'lib/redis/connection/heartbeat.ts',
    find: 'if (this.#missedBeats <= BEATS) return;',
    replace: 'if (this.#missedBeats !== -1) return;',
  }),
  broken('silent-subscriber-kept', {
    claim: 'nothing looks after the connection for releases of others',
    schedule: 'subscriber connections forgotten',
    caughtBy: ['broken-promise'],
    file: 'lib/redis/redis-lock-node.ts',
    find: 'this.#subscriber.open(this.#service!.settings.silenceLimitMs);',
    replace: 'this.#subscriber.open(2 ** 30);',
  }),
  broken('stalls-not-written-down', {
    claim: 'the network does not write down when it, or a server, did not run',
    schedule: 'network process stopped',
    caughtBy: ['false-outage'],
    file: 'campaign/faults/world/world-process.ts',
    find: 'noteStalls();',
    replace: 'void noteStalls;',
    quick: true,
  }),
  broken('silent-connection-given-up-at-once', {
    claim: 'a connection of a stalled server is replaced, whether or not others get through',
    schedule: 'servers stopped for long',
    caughtBy: ['broken-promise', 'wrong-node-report'],
    file: 'lib/redis/connection/redis-link.ts',
    find: 'if (!this.#hasSecond && this.#timer === undefined) this.#connect();',
    replace: "if (!this.#isClosed) connection.drop('silent');",
  }),
  broken('no-admission', {
    claim: 'all tries of a burst are sent at once',
    schedule: 'burst of free keys',
    caughtBy: ['false-outage', 'broken-promise'],
    file: 'lib/core/waiting/admission.ts',
    find: 'const isNext = this.#inUse < this.limit && ',
    replace: 'const isNext = ',
  }),
  broken('failing-node-not-reported', {
    claim: 'a node that refuses every vote is not reported',
    schedule: 'one of 3 never votes',
    caughtBy: ['wrong-node-report'],
    file: 'lib/core/nodes/node-health.ts',
    find: "this.#service.events.emit({ type: 'node-failing', address: this.#session.address, reason });",
    replace: 'void reason;',
  }),
  broken('contention-called-an-outage', {
    claim: 'a caller that finds a lock held is refused because of an outage',
    schedule: 'contention',
    caughtBy: ['false-outage'],
    file: 'lib/core/waiting/verdict.ts',
    find: "if (answer === 'busy' || hasLost || isBehind || isNamed)",
    replace: 'if (hasLost && slots !== undefined)',
  }),
];
