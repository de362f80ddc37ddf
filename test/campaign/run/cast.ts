import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HistoryFile, readHistory } from '../../history/history-file.ts';
import { recordStalls } from '../../history/record-stalls.ts';
import type { Edit } from '../../support/program.ts';
import { startRedisServers } from '../../support/redis-servers/index.ts';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { Network } from '../network/network.ts';
import { Resource } from '../resource/resource.ts';
import type { Load } from '../worker/worker-settings.ts';
import type { Schedule } from './schedule.ts';
import { WorkerProcess } from './worker-process.ts';

export const SERVERS = 5;
export const WORKERS = 4;
export const TTL_MS = 1_000;
export const KEY_PREFIX = 'campaign:';

/** A service that is neither idle nor overloaded: some records, short and long work, some sets, all kinds of waits. */
const USUAL_LOAD: Load = {
  callers: 4,
  keys: 4,
  waitsMs: [0, 300, 3_000, 3_000],
  holdMs: [0, 40],
  longShare: 0.02,
  unextendedShare: 0.02,
  setShare: 0.1,
  pauseMs: 20,
};

/** Servers and processes of one run. */
export interface Cast {
  readonly servers: readonly RedisServer[];
  readonly network: Network;
  readonly resource: Resource;
  readonly workers: readonly WorkerProcess[];
  /** History that the campaign itself writes down. */
  readonly file: HistoryFile<CampaignEvent>;
  /** Events that all have written down so far. */
  readHistories(): CampaignEvent[][];
  /** Ends and removes everything, whatever its state. */
  end(): Promise<void>;
}

/** Options that may differ between runs of one schedule. */
export interface RunOptions {
  readonly seed: number;
  /** Changes to the code under test: negative controls break it on purpose. */
  readonly edits?: readonly Edit[];
}

/** Starts the servers, the network between them and the workers, the resource, and workers that compete. */
export async function startCast(schedule: Schedule, options: RunOptions): Promise<Cast> {
  const { seed, edits = [] } = options;
  const folder = mkdtempSync(join(tmpdir(), 'lock-campaign-'));
  const path = (name: string): string => join(folder, `${name}.jsonl`);
  const endings: (() => Promise<unknown> | void)[] = [
    () => rmSync(folder, { recursive: true, force: true }),
  ];
  const end = async (): Promise<void> => {
    for (const ending of endings.splice(0).reverse()) await ending();
  };
  try {
    const { nodes = SERVERS, workers: clients = WORKERS } = schedule;
    const file = new HistoryFile<CampaignEvent>(path('campaign'));
    endings.push(() => file.close(), recordStalls(file, 'campaign'));
    const servers = await startRedisServers(nodes, { ...schedule.servers, own: true });
    endings.push(() => Promise.all(servers.map((server) => server.stop())));
    const settings = { targets: servers, clients, seed, historyPath: path('network') };
    const network = await Network.start(settings, edits);
    endings.push(() => network.close());
    const resource = await Resource.start(path('resource'), edits);
    endings.push(() => resource.kill());
    const workers = Array.from({ length: clients }, (_, index) => {
      const urls = servers.map((_url, node) => network.url(index, node));
      const plan = { index, seed, edits, historyFolder: folder };
      return new WorkerProcess({
        ...plan,
        settings: {
          urls,
          keyPrefix: KEY_PREFIX,
          ttlMs: TTL_MS,
          load: { ...USUAL_LOAD, ...schedule.load },
          resourcePort: resource.port,
          // Clocks of machines that are kept in step are some milliseconds apart.
          wallSkewMs: (index - 1.5) * 10,
          notesVotes: (schedule.limits?.overlapMs ?? 0) > 0,
          options: schedule.options ?? {},
        },
      });
    });
    endings.push(() => Promise.all(workers.map((worker) => worker.kill())));
    await Promise.all(workers.map((worker) => worker.started()));
    const readHistories = (): CampaignEvent[][] =>
      [
        ...['resource', 'campaign', 'network'].map(path),
        ...workers.flatMap(({ historyPaths }) => historyPaths),
      ].map((each) => readHistory<CampaignEvent>(each));
    return { servers, network, resource, workers, file, readHistories, end };
  } catch (error) {
    await end();
    throw error;
  }
}
