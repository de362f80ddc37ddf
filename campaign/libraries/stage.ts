import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HistoryFile, readHistory } from '../../test/history/history-file.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import type { LinkMode } from '../../test/support/link.ts';
import { mergeHistory, timeOf, type CampaignEvent } from '../faults/campaign-event.ts';
import { Network } from '../faults/world/network.ts';
import { WorkerProcess } from '../faults/worker/worker-process.ts';
import type { Servers } from './servers.ts';
import type { Harm, WorkerCommand, WorkerSettings } from './worker-settings.ts';

const PROCESSES = 4;
const LOOK_MS = 20;
const HOLDER_LIMIT_MS = 15_000;
/** Whose call has not ended so long after all others have let go does not come to an end. */
const REST_LIMIT_MS = 10_000;
const NETWORK = 'network.jsonl';

/** What a row of the table is played with. */
export interface StagePlan extends Pick<WorkerSettings, 'library' | 'column'> {
  readonly seed: number;
  readonly servers: Servers;
}

type Worker = WorkerProcess<WorkerSettings, WorkerCommand>;

/** Processes that want one lock, the network between them and the servers, and the records under the lock. */
export class Stage {
  readonly #path: string;
  readonly #file: HistoryFile<CampaignEvent>;
  readonly #workers: readonly Worker[];
  readonly #reviving: NodeJS.Timeout;
  #harms = 0;
  #key: string | undefined;

  private constructor(
    private readonly folder: string,
    private readonly network: Network,
    { servers, seed, library, column }: StagePlan,
  ) {
    this.#path = join(folder, 'campaign.jsonl');
    this.#file = new HistoryFile(this.#path);
    this.#workers = Array.from({ length: PROCESSES }, (_, index) => {
      const urls = servers.urls.map((each, node) => {
        const { port } = new URL(network.url(index, node));
        return each.replace(/:\d+/, `:${port}`);
      });
      const settings = { library, column, urls, resourcePort: network.resourcePort };
      const plan = { script: 'campaign/libraries/worker.ts', index, seed, historyFolder: folder };
      return new WorkerProcess({ ...plan, edits: [], settings });
    });
    this.#reviving = setInterval(() => this.#revive(), LOOK_MS);
  }

  static async open(plan: StagePlan): Promise<Stage> {
    const folder = mkdtempSync(join(tmpdir(), 'libraries-'));
    const targets = plan.servers.urls.map((url) => {
      const { hostname: host, port } = new URL(url);
      return { host, port: Number(port) };
    });
    const historyPath = join(folder, NETWORK);
    const settings = { targets, clients: PROCESSES, seed: plan.seed, historyPath };
    const network = await Network.start({ ...settings, isUnwatched: true }, []);
    const stage = new Stage(folder, network, plan);
    await Promise.all(stage.#workers.map((worker) => worker.started()));
    return stage;
  }

  /** Lets all want a key while something happens. Resolves with what they have written down of that. */
  async play(key: string, act: () => Promise<void>): Promise<CampaignEvent[]> {
    const from = historyNow();
    this.#key = key;
    for (const worker of this.#workers) this.#begin(worker);
    try {
      await act();
    } finally {
      this.#key = undefined;
      await Promise.all(this.#workers.map((worker) => this.#rest(worker)));
    }
    const own = [this.#path, join(this.folder, NETWORK)];
    const paths = [...own, ...this.#workers.flatMap(({ historyPaths }) => historyPaths)];
    const history = mergeHistory(paths.map((path) => readHistory<CampaignEvent>(path)));
    return history.filter((event) => timeOf(event) > from);
  }

  /** Resolves when the next holder suffers it, with the number of its process. */
  async harm(how: Omit<Harm, 'type' | 'claim'>): Promise<number> {
    const claim = join(this.folder, `harm-${(this.#harms += 1)}`);
    for (const worker of this.#workers)
      worker.ask({ type: 'harm', claim, ...how }).catch(() => undefined);
    for (const untilMs = historyNow() + HOLDER_LIMIT_MS; historyNow() < untilMs;) {
      await sleep(LOOK_MS);
      const taker = existsSync(claim) ? readFileSync(claim, 'utf8') : '';
      const client = this.#workers.findIndex(({ name }) => name === taker);
      if (client >= 0) return client;
    }
    throw new Error(`nobody had the lock for ${HOLDER_LIMIT_MS} ms`);
  }

  resume(client: number): void {
    this.#workers[client]!.resume();
  }

  async kill(client: number): Promise<void> {
    const worker = this.#workers[client]!;
    const at = historyNow();
    const what = { mark: 'worker-killed', worker: worker.name } as const;
    this.#file.append({ type: 'mark', process: 'campaign', at, ...what });
    await worker.kill(at);
    await this.#restart(worker);
  }

  setClock(client: number, aheadMs: number): Promise<void> {
    return this.#workers[client]!.ask({ type: 'set-clock', aheadMs }).catch(() => undefined);
  }

  /** The links of a process are in this mode for so long. */
  async links(client: number, mode: LinkMode, durationMs: number): Promise<void> {
    const selection = { clients: [client] };
    await this.network.do({ type: 'set', mode, selection });
    await sleep(durationMs);
    await this.network.do({ type: 'set', mode: { kind: 'pass' }, selection });
  }

  /** Ends and removes everything, whatever its state. */
  async end(): Promise<void> {
    clearInterval(this.#reviving);
    await Promise.all(this.#workers.map((worker) => worker.kill()));
    await this.network.program.kill();
    this.#file.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #begin(worker: Worker): void {
    if (this.#key !== undefined)
      worker.ask({ type: 'begin', key: this.#key }).catch(() => undefined);
  }

  /** A process in which a call does not end is replaced. */
  async #rest(worker: Worker): Promise<void> {
    const rested = worker.ask({ type: 'rest' }).then(
      () => true,
      () => true,
    );
    if (await Promise.race([rested, sleep(REST_LIMIT_MS, false)])) return;
    const message = `a call of the library has not ended in ${REST_LIMIT_MS} ms`;
    const what = { kind: 'does-not-exit', message } as const;
    this.#file.append({ type: 'problem', process: worker.name, at: historyNow(), ...what });
    await worker.kill();
    await this.#restart(worker);
  }

  /** Where a library has ended its process, another one takes its place. */
  #revive(): void {
    for (const worker of this.#workers)
      if (worker.failures.splice(0).length > 0) void this.#restart(worker);
  }

  async #restart(worker: Worker): Promise<void> {
    worker.restart();
    await worker.started();
    this.#begin(worker);
  }
}
