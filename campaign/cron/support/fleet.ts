import { mkdtempSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Link } from '../../../test/support/link.ts';
import { Program } from '../../../test/support/program.ts';
import { findClockLibrary } from '../../../test/support/redis-servers/clock-library.ts';
import { MovableClock } from '../../../test/support/redis-servers/movable-clock.ts';
import { SeededRandom } from '../../../test/support/seeded-random.ts';
import type { WorkerSettings } from './settings.ts';

/** How far the clocks are ahead, in the order of the processes. The last one steps. */
const CLOCKS_MS = [0, 2_000, -2_000, 1_000, 0];
const STEPS_MS = [60_000, -60_000, 15_000, -15_000, 3_000, 0];
const OUTAGE_MS = 30_000;
/** Longer than a lock lives. */
const STOP_MS = 14_000;

export interface FleetSettings extends Omit<WorkerSettings, 'host'> {
  readonly seed: number;
  readonly durationMs: number;
}

/** What was done to the fleet. */
export interface FleetReport {
  kills: number;
  stops: number;
  steps: number;
  outages: number;
}

type Worker = Program<object>;

/** Has five processes run jobs while they are killed and stopped, a clock steps, and the servers are away for half a minute. */
export class Fleet {
  readonly report: FleetReport = { kills: 0, stops: 0, steps: 0, outages: 0 };
  readonly #settings: FleetSettings;
  readonly #folder = mkdtempSync(join(tmpdir(), 'cron-'));
  readonly #chance: SeededRandom;
  readonly #links: Link[] = [];
  readonly #clocks: MovableClock[] = [];
  readonly #workers: Worker[] = [];

  constructor(settings: FleetSettings) {
    this.#settings = settings;
    this.#chance = new SeededRandom(settings.seed);
  }

  async start(): Promise<void> {
    const library = await findClockLibrary({ command: process.execPath });
    for (const [host, clockMs] of CLOCKS_MS.entries()) {
      const folder = join(this.#folder, String(host));
      mkdirSync(folder);
      const clock = new MovableClock(library, folder);
      await clock.set(clockMs);
      this.#clocks.push(clock);
    }
    const redisUrl = this.#settings.redisUrl && (await this.#behindLink(this.#settings.redisUrl));
    const databaseUrl = await this.#behindLink(this.#settings.databaseUrl);
    Object.assign(this.#settings, { redisUrl, databaseUrl });
    for (const host of CLOCKS_MS.keys()) this.#startWorker(host);
    await Promise.all(this.#workers.map((worker) => worker.first()));
  }

  async play(): Promise<void> {
    const { durationMs } = this.#settings;
    const startedMs = performance.now();
    for (;;) {
      const passedMs = performance.now() - startedMs;
      if (passedMs > durationMs) break;
      if (this.report.outages === 0 && passedMs > durationMs / 2) await this.#outage();
      else await this.#harm();
      await sleep(this.#chance.between(5_000, 15_000));
    }
    for (const [host, clock] of this.#clocks.entries()) await clock.set(CLOCKS_MS[host]!);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.kill()));
    await Promise.all(this.#links.map((link) => link.close()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #behindLink(address: string): Promise<string> {
    const url = new URL(address);
    const link = await Link.open({ host: url.hostname, port: Number(url.port) });
    this.#links.push(link);
    url.host = `127.0.0.1:${link.port}`;
    return url.href;
  }

  #startWorker(host: number): void {
    const clock = this.#clocks[host]!;
    const [, preload = ''] = clock.prefix();
    const environment = { ...clock.environment(), LD_PRELOAD: preload.replace('LD_PRELOAD=', '') };
    const { seed: _seed, durationMs: _durationMs, ...settings } = this.#settings;
    const script = new URL('worker.ts', import.meta.url).pathname;
    this.#workers[host] = new Program(script, { ...settings, host }, [], environment);
  }

  async #outage(): Promise<void> {
    this.report.outages += 1;
    for (const link of this.#links) link.setMode({ kind: 'lose' });
    await sleep(OUTAGE_MS);
    for (const link of this.#links) link.setMode({ kind: 'pass' });
  }

  async #harm(): Promise<void> {
    const host = Math.floor(this.#chance.between(0, CLOCKS_MS.length));
    const worker = this.#workers[host]!;
    const kind = this.#chance.pick(['kill', 'stop', 'step'] as const);
    if (worker.end !== undefined) throw worker.end;
    if (kind === 'kill') {
      this.report.kills += 1;
      await worker.kill();
      this.#startWorker(host);
      await this.#workers[host]!.first();
    } else if (kind === 'stop') {
      this.report.stops += 1;
      worker.child.kill('SIGSTOP');
      await sleep(STOP_MS);
      worker.child.kill('SIGCONT');
    } else {
      this.report.steps += 1;
      await this.#clocks.at(-1)!.set(this.#chance.pick(STEPS_MS));
    }
  }
}
