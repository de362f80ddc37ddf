import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { DynamicModule, LoggerService, Provider, Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, beforeEach, jest } from '@jest/globals';
import { sqliteFence, type Fence } from '../../../lib/fencing/index.ts';
import { RedlockModule, type LockEvent, type RedlockModuleOptions } from '../../../lib/index.ts';
import { CronRuns, cronDdl } from '../../../lib/schedule/index.ts';
import { createMemoryNodes } from '../../../lib/testing/index.ts';
import { SQLITE_DRIVERS, type OpenSqlite } from '../../fencing/support/sqlite-drivers.ts';
import { closeAll, closeLater, silentLogger } from '../../nest/support/applications.ts';

/** Enough for all that happens in this process without a timer. */
const TURNS = 40;

export const settled = async (): Promise<void> => {
  for (let turns = 0; turns < TURNS; turns += 1) await turn();
};

/** Lets time pass in steps of a minute; what each timer has begun goes on until it needs another one. */
export async function pass(ms: number): Promise<void> {
  for (let leftMs = ms; leftMs > 0; leftMs -= 60_000) {
    await jest.advanceTimersByTimeAsync(Math.min(60_000, leftMs));
    await settled();
  }
}

/** Hosts with the same servers and the same database, in time that only the test moves. */
export class Fleet {
  readonly events: LockEvent[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'cron-'));
  readonly #nodes = createMemoryNodes(3);

  /** A connection of its own to the database. */
  connect(): { database: OpenSqlite; fence: Fence } {
    const database = new SQLITE_DRIVERS['libsql']!(join(this.#folder, 'data.db'));
    return { database, fence: sqliteFence(database) };
  }

  async createTables(): Promise<void> {
    const { database, fence } = this.connect();
    database.exec(
      `${fence.ddl()} ${cronDdl(fence)} CREATE TABLE report (scheduled TEXT, host TEXT)`,
    );
    database.close();
  }

  /** Starts an application, which `closeAll` ends. */
  async start(
    providers: Provider[],
    options: Partial<RedlockModuleOptions> = { fence: this.connect().fence },
    logger: LoggerService = silentLogger,
    imports: Type[] = [],
  ): Promise<TestingModule> {
    const module = await Test.createTestingModule({
      imports: [this.locks(options), ...imports],
      providers: [...providers, CronRuns],
    })
      .setLogger(logger)
      .compile();
    // Nest 11 does not close an application that did not start.
    await module.init();
    closeLater(module);
    await settled();
    return module;
  }

  locks(options: Partial<RedlockModuleOptions> = {}): DynamicModule {
    const onEvent = (event: LockEvent) => void this.events.push(event);
    return RedlockModule.forRoot({ nodes: this.#nodes, onEvent, ...options });
  }

  /** The events of runs, in short. */
  get told(): string[] {
    return this.events.flatMap((event) => {
      if (event.type === 'run-started') return [`started ${short(event.scheduled)}`];
      if (event.type === 'run-ended') return [`ended ${short(event.scheduled)}`];
      if (event.type !== 'run-missed') return [];
      return [
        `missed ${event.times.map((time) => short(time)).join(' ')}, ${event.isRun ? 'runs' : 'skips'}`,
      ];
    });
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export const short = (time: Date | string): string => new Date(time).toISOString().slice(11, 16);

/** A fleet for each test, which begins at `now`. */
export function useFleet(now: string): () => Fleet {
  let fleet: Fleet;
  beforeEach(async () => {
    fleet = new Fleet();
    await fleet.createTables();
    const doNotFake = ['hrtime', 'nextTick', 'queueMicrotask', 'setImmediate'] as const;
    jest.useFakeTimers({ doNotFake: [...doNotFake], now: Date.parse(now) });
  });
  afterEach(async () => {
    await closeAll();
    fleet.remove();
  });
  return () => fleet;
}
