import { Socket } from 'node:net';
import { setImmediate as afterPoll } from 'node:timers/promises';
import { GCProfiler } from 'node:v8';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { answerQuestions, programSettings } from '../../support/program.ts';
import { respRequest } from '../../support/redis-servers/resp-request.ts';
import { COUNTED, type CountedName, type CountedScenario } from './counted-scenarios.ts';

// A process of its own: its heap has nothing of jest in it, and its sockets are those of the locks.

/** Of one round, on all servers together. */
export interface Counts {
  /** Scripts that were sent. */
  readonly messages: number;
  /** Commands that these scripts called. */
  readonly calls: number;
  /** Write system calls of this process. */
  readonly writes: number;
  /** Bytes that the servers received. */
  readonly received: number;
  /** Bytes that the servers sent. */
  readonly sent: number;
  /** Bytes that this process allocated. */
  readonly allocated: number;
}

export interface CountingSettings {
  readonly ports: readonly number[];
}

/** A scenario, and how many nodes it has. */
export interface CountingQuestion {
  readonly name: CountedName;
  readonly nodes: number;
}

const OWN_COMMANDS = ['info', 'ping'];
const { ports } = programSettings<CountingSettings>();
let writes = 0;
let keys = 0;

countWrites('_write');
countWrites('_writev');

/** `write` of a socket that is not writing calls one of them at once, each for one system call. */
function countWrites(method: '_write' | '_writev'): void {
  const original = Socket.prototype[method]! as (...args: unknown[]) => void;
  Socket.prototype[method] = function counted(this: Socket, ...args: unknown[]) {
    writes += 1;
    return original.apply(this, args);
  };
}

/** What one server has counted since its start, without what is asked here. */
class Tally {
  #asked = { received: 0, sent: 0 };

  constructor(readonly port: number) {}

  async read(): Promise<Omit<Counts, 'writes' | 'allocated'>> {
    const asked = { ...this.#asked };
    const text = await this.#ask(['INFO', 'everything']);
    const valueOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(text)![1]);
    let messages = 0;
    let calls = 0;
    for (const [, name, count] of text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
      if (name === 'evalsha') messages += Number(count);
      else if (!OWN_COMMANDS.includes(name!)) calls += Number(count);
    }
    return {
      messages,
      calls,
      // The request is in the count already, its answer is not.
      received:
        valueOf('total_net_input_bytes') - asked.received - lengthOf(['INFO', 'everything']),
      sent: valueOf('total_net_output_bytes') - asked.sent,
    };
  }

  /** A server answers one connection after the other: what was sent before this is answered before it. */
  async settled(): Promise<void> {
    await this.#ask(['PING']);
  }

  async #ask(command: readonly string[]): Promise<string> {
    const reply = await respRequest({ address: { host: '127.0.0.1', port: this.port } }, command);
    writes -= 1;
    this.#asked.received += lengthOf(command);
    this.#asked.sent += reply === 'PONG' ? '+PONG\r\n'.length : lengthOf([reply]) - '*1\r\n'.length;
    return reply;
  }
}

/** In the Redis protocol. */
function lengthOf(command: readonly string[]): number {
  const parts = command.map((part) => `$${part.length}\r\n${part}\r\n`.length);
  return parts.reduce((sum, part) => sum + part, `*${command.length}\r\n`.length);
}

/** Bytes that are allocated until the returned function is called: what collections took away counts, too. */
function countAllocations(): () => number {
  const profiler = new GCProfiler();
  profiler.start();
  const before = process.memoryUsage().heapUsed;
  return () => {
    const after = process.memoryUsage().heapUsed;
    const collected = profiler
      .stop()
      .statistics.map(
        ({ beforeGC, afterGC }) =>
          beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize,
      );
    return collected.reduce((sum, bytes) => sum + bytes, after - before);
  };
}

async function count({ name, nodes }: CountingQuestion): Promise<Counts> {
  const scenario: CountedScenario = COUNTED[name];
  const tallies = ports.slice(0, nodes).map((port) => new Tally(port));
  let extensions = 0;
  let look = (): void => undefined;
  const redlock = new Redlock(
    ports.slice(0, nodes).map((port) => new RedisLockNode(`redis://127.0.0.1:${port}`)),
    {
      restartGuard: false,
      ttl: scenario.ttl,
      onEvent: scenario.ttl
        ? ({ type }) => {
            if (type !== 'extended') return;
            extensions += 1;
            look();
          }
        : undefined,
    },
  );
  redlock.open();
  if (!(await redlock.ready(20_000))) throw new Error('no quorum');
  const settled = async () => {
    await Promise.all(tallies.map((tally) => tally.settled()));
    await afterPoll();
  };
  const rounds = async (count: number, settle: () => Promise<void>) => {
    for (let round = 0; round < count; round += 1) {
      await scenario.run({
        redlock,
        newKey: () => `key:${String((keys += 1)).padStart(8, '0')}`,
        settled: settle,
        extended: (more) => {
          const until = extensions + more;
          return new Promise((resolve) => {
            look = () => void (extensions >= until && resolve());
          });
        },
      });
      await settle();
    }
  };
  const read = () => Promise.all(tallies.map((tally) => tally.read()));
  const held = await Promise.all(
    Array.from({ length: scenario.held ?? 0 }, (_, index) => redlock.acquire(`held:${index}`)),
  );
  await rounds(1, settled);
  const before = await read();
  const writesBefore = writes;
  await rounds(scenario.rounds, settled);
  const written = writes - writesBefore;
  const after = await read();
  const sum = (kind: keyof (typeof after)[number]): number =>
    after.reduce((total, each, index) => total + each[kind] - before[index]![kind], 0);
  let allocated = 0;
  if (scenario.rounds > 1) {
    await rounds(scenario.rounds * 10, afterPoll);
    const allocatedSince = countAllocations();
    await rounds(scenario.rounds, afterPoll);
    allocated = allocatedSince();
  }
  await Promise.all(held.map((lock) => lock.release()));
  await redlock.close();
  const perRound = (total: number) => total / scenario.rounds;
  return {
    messages: perRound(sum('messages')),
    calls: perRound(sum('calls')),
    writes: perRound(written),
    received: perRound(sum('received')),
    sent: perRound(sum('sent')),
    allocated: perRound(allocated),
  };
}

answerQuestions<CountingQuestion>('ready', count);
