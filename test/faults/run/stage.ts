import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import { processState } from '../../support/process-state.ts';
import { historyNow } from '../../history/lock-history.ts';
import type { SeededRandom } from '../../load/seeded-random.ts';
import type { MarkEvent } from '../campaign-event.ts';
import type { Cast } from './cast.ts';
import type { Network } from '../network/network.ts';
import type { CampaignWorker } from '../worker/campaign-worker.ts';
import type { WorkerCommand } from '../worker/worker-settings.ts';

/** A mark without what every mark has. */
export type Mark = MarkEvent extends infer Each
  ? Each extends MarkEvent
    ? Omit<Each, 'type' | 'process' | 'at'>
    : never
  : never;

const STOP_LIMIT_MS = 10_000;

/** What a schedule acts on. Everything it did is in the history. */
export class Stage {
  readonly servers: readonly RedisServer[];
  readonly network: Network;
  readonly workers: readonly CampaignWorker[];

  constructor(
    private readonly cast: Cast,
    readonly random: SeededRandom,
    readonly ttlMs: number,
  ) {
    ({ servers: this.servers, network: this.network, workers: this.workers } = cast);
  }

  /** `guardMs`: how long a restarted server may not vote. The ttl of a lock is the longest there is. */
  get guardMs(): number {
    return this.ttlMs;
  }

  mark(mark: Mark): void {
    this.cast.file.append({
      type: 'mark',
      process: 'campaign',
      at: historyNow(),
      ...mark,
    } as MarkEvent);
  }

  note(text: string): void {
    this.mark({ mark: 'note', text });
  }

  async pause(durationMs: number): Promise<void> {
    await sleep(durationMs);
  }

  /** The indices of `count` servers, by chance. */
  someServers(count: number): number[] {
    return this.#some(this.servers.length, count);
  }

  /** `count` workers, by chance. */
  someWorkers(count: number): CampaignWorker[] {
    return this.#some(this.workers.length, count).map((index) => this.workers[index]!);
  }

  /** Lets `harm` take a quorum away and `heal` give it back after `durationMs`. `guardMs`: how long what comes back may not vote. */
  async withoutQuorum(
    durationMs: number,
    harm: () => Promise<unknown>,
    heal: () => Promise<unknown>,
    guardMs = 0,
  ): Promise<void> {
    this.mark({ mark: 'quorum-lost' });
    await harm();
    await this.pause(durationMs);
    await heal();
    this.mark({ mark: 'quorum-healed', guardMs });
  }

  /** SIGSTOP for so long. */
  async stopWorker(worker: CampaignWorker, durationMs: number): Promise<void> {
    this.mark({ mark: 'worker-stopped', worker: worker.name });
    worker.freeze();
    await this.pause(durationMs);
    this.mark({ mark: 'worker-resumed', worker: worker.name });
    worker.resume();
  }

  /** The next holder stops its process exactly between asking its lock and writing, and goes on after `durationMs`. */
  async stopBetweenCheckAndWrite(worker: CampaignWorker, durationMs: number): Promise<void> {
    this.command(worker, { type: 'stop-between-check-and-write' });
    const deadline = historyNow() + STOP_LIMIT_MS;
    while (processState(worker.pid) !== 'T') {
      if (historyNow() > deadline) throw new Error(`${worker.name} had no lock to write under`);
      await sleep(5);
    }
    await this.pause(durationMs);
    worker.resume();
  }

  /** SIGKILL, and a new process after `downMs`. */
  async killWorker(worker: CampaignWorker, downMs: number): Promise<void> {
    this.mark({ mark: 'worker-killed', worker: worker.name });
    await worker.kill();
    await this.pause(downMs);
    worker.restart();
  }

  command(worker: CampaignWorker, command: WorkerCommand): void {
    worker.send(command);
  }

  #some(size: number, count: number): number[] {
    const left = Array.from({ length: size }, (_, index) => index);
    return Array.from({ length: count }, () => {
      const index = Math.floor(this.random.fraction() * left.length);
      return left.splice(index, 1)[0]!;
    });
  }
}
