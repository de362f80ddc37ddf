import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import pg from 'pg';
import { isStaleTokenError, postgresFence } from '../../lib/fencing/index.ts';
import { RedlockModule, type Lock, type LockEvent } from '../../lib/index.ts';
import { isLeader, Leader, type Candidate } from '../../lib/leader/index.ts';
import { HistoryFile } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { recordStalls } from '../../test/history/record-stalls.ts';
import { answerQuestions, programSettings } from '../../test/support/program.ts';
import { readCounter, writeCounter } from '../database/counters.ts';
import type { CampaignEvent, ProblemEvent } from '../faults/campaign-event.ts';
import { KEY, NAME, TTL_MS, type WorkerCommand, type WorkerSettings } from './worker-settings.ts';

// Process of the campaign: a leader, or one that waits to be it, until the parent disconnects.

const STEP_MS = 20;
const settings = programSettings<WorkerSettings>();
const { name, urls, databaseUrl, historyPath, notePath } = settings;
const file = new HistoryFile<CampaignEvent>(historyPath);
recordStalls(file, name, notePath);
const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 });
pool.on('error', () => undefined);
const fence = postgresFence(pool);
/** Stands still right before the next write; undefined where nothing was asked for. */
let standStill: (() => void) | undefined;
let term: Lock | undefined;

/** The time, and how long the lock is valid from then on. */
function validityOf(lock: Lock): { readonly at: number; readonly validUntil: number } {
  for (;;) {
    const at = historyNow();
    const validUntil = at + lock.remainingMs;
    // Between two readings the process may have stood still.
    if (historyNow() - at < 0.2) return { at, validUntil };
  }
}

@Leader(NAME)
class Counter implements Candidate {
  async onElected(lock: Lock, signal: AbortSignal): Promise<void> {
    const { keys, token } = lock;
    const { holder } = token;
    const { at, validUntil } = validityOf(lock);
    const startedAt = validUntil - (TTL_MS * 0.99 - 2);
    const held = lock.isHeld;
    write({ type: 'granted', holder, keys, token: token.value, startedAt, at, validUntil, held });
    const lost = () => {
      const { reason } = lock.signal.reason as { reason: string };
      write({ type: 'lost', holder, at: historyNow(), reason });
    };
    lock.signal.addEventListener('abort', lost);
    term = lock;
    await this.#count(lock, signal);
    lock.signal.removeEventListener('abort', lost);
    // Also of a lock that was lost before its validity has ended: the work has, so others may have it.
    term = undefined;
    write({ type: 'released', holder, at: historyNow() });
  }

  async #count({ token }: Lock, signal: AbortSignal): Promise<void> {
    const { holder, value } = token;
    try {
      await fence.claim(token);
      while (!signal.aborted) {
        const fenced = await readCounter(pool, 'fenced', KEY);
        const unfenced = await readCounter(pool, 'unfenced', KEY);
        await sleep(STEP_MS);
        const at = historyNow();
        if (!isLeader(this)) continue;
        write({ type: 'step', holder, at });
        standStill?.();
        const next = { key: KEY, value: unfenced + 1 };
        await writeCounter(pool, { view: 'unfenced', ...next }, token, name);
        await fence.transaction(token, (transaction) =>
          writeCounter(transaction, { view: 'fenced', key: KEY, value: fenced + 1 }, token, name),
        );
      }
    } catch (error) {
      if (!isStaleTokenError(error)) return problem('raw-error', error);
      const refused = { view: 'fenced', operation: 'write', key: KEY, value: 0 } as const;
      const at = historyNow();
      write({ type: 'access', ...refused, accepted: false, token: value, holder, at });
      // The signal comes when the lock is known to be lost.
      while (!signal.aborted) await sleep(1);
    }
  }
}

type Unsigned<Event> = Event extends unknown ? Omit<Event, 'process'> : never;

function write(event: Unsigned<CampaignEvent>): void {
  file.append({ process: name, ...event } as CampaignEvent);
}

function problem(kind: ProblemEvent['kind'], error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  write({ type: 'problem', at: historyNow(), kind, message });
}

function onEvent(event: LockEvent): void {
  if (event.type !== 'extended' || event.holder !== term?.token.holder) return;
  write({ type: 'extended', holder: event.holder, ...validityOf(term) });
}

process.on('unhandledRejection', (error) => problem('unhandled-rejection', error));
process.on('uncaughtExceptionMonitor', (error) => problem('uncaught-exception', error));
const disconnected = new Promise((resolve) => process.once('disconnect', resolve as () => void));
const started = { mark: 'worker-started', worker: name } as const;
file.append({ type: 'mark', process: 'campaign', at: historyNow(), ...started });

@Module({
  imports: [RedlockModule.forRoot({ nodes: urls, ttl: TTL_MS, onEvent, startupTimeout: '1m' })],
  providers: [Counter],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const counter = app.get(Counter);
answerQuestions(undefined, (command: WorkerCommand) => {
  if (command.type === 'leads') {
    // What was asked for before has found no leader, and is over.
    standStill = undefined;
    return isLeader(counter);
  }
  standStill = () => {
    standStill = undefined;
    if (command.type === 'stop-before-write') process.kill(process.pid, 'SIGSTOP');
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, command.durationMs);
  };
});
await disconnected;
await app.close();
await pool.end();
