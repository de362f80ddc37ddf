import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HistoryFile, readHistory } from '../../history/history-file.ts';
import { recordStalls } from '../../load/record-stalls.ts';
import { WorkerProcess } from '../../load/worker-process.ts';
import type { Edit } from '../../simulation/mutants/mutants.ts';
import { startRedisServers } from '../../support/redis-servers/index.ts';
import type { RedisServer } from '../../support/redis-servers/redis-server.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { Network } from '../network/network.ts';
import { nodeWithEdits } from './node-with-edits.ts';
import { Resource } from '../resource/resource.ts';
import type { CampaignWorker } from '../worker/campaign-worker.ts';
import type { CampaignWorkerSettings, Load, WorkerMessage } from '../worker/worker-settings.ts';
import type { Schedule } from './schedule.ts';

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

/** All servers and processes of one run. */
export interface Cast {
  readonly servers: readonly RedisServer[];
  readonly network: Network;
  readonly resource: Resource;
  readonly workers: readonly CampaignWorker[];
  /** What the campaign itself writes down. */
  readonly file: HistoryFile<CampaignEvent>;
  /** What all have written down so far. */
  readHistories(): CampaignEvent[][];
  /** Ends and removes everything, whatever its state. */
  end(): Promise<void>;
}

/** Starts the servers, the network between them and the workers, the resource, and workers that compete. */
export async function startCast(
  schedule: Schedule,
  { seed, edits = [] }: { readonly seed: number; readonly edits?: readonly Edit[] },
): Promise<Cast> {
  const folder = mkdtempSync(join(tmpdir(), 'lock-faults-'));
  const endings: (() => Promise<unknown> | void)[] = [
    () => rmSync(folder, { recursive: true, force: true }),
  ];
  const end = async (): Promise<void> => {
    for (const ending of endings.splice(0).reverse()) await ending();
  };
  try {
    const servers = await startRedisServers(SERVERS, { ...schedule.servers, own: true });
    endings.push(() => Promise.all(servers.map((server) => server.stop())));
    const network = await Network.start({ targets: servers, clients: WORKERS, seed });
    endings.push(() => network.close());
    const resourcePath = join(folder, 'resource.jsonl');
    const resource = await Resource.start(resourcePath, edits);
    endings.push(() => resource.kill());
    const workers = startWorkers(schedule, { seed, edits, folder, network, resource });
    endings.push(() => Promise.all(workers.map((worker) => worker.kill())));
    await Promise.all(workers.map((worker) => worker.started()));
    const campaignPath = join(folder, 'campaign.jsonl');
    const file = new HistoryFile<CampaignEvent>(campaignPath);
    endings.push(() => file.close());
    // When this process stalls, so does the machine, and with it what no other process can tell: servers and network.
    endings.push(recordStalls(file, 'campaign'));
    const readHistories = (): CampaignEvent[][] =>
      [resourcePath, campaignPath, ...workers.flatMap(({ historyPaths }) => historyPaths)].map(
        (path) => readHistory<CampaignEvent>(path),
      );
    return { servers, network, resource, workers, file, readHistories, end };
  } catch (error) {
    await end();
    throw error;
  }
}

interface WorkerSetup {
  readonly seed: number;
  readonly edits: readonly Edit[];
  readonly folder: string;
  readonly network: Network;
  readonly resource: Resource;
}

function startWorkers(schedule: Schedule, setup: WorkerSetup): CampaignWorker[] {
  const { seed, edits, folder, network, resource } = setup;
  return Array.from(
    { length: WORKERS },
    (_, index) =>
      new WorkerProcess<CampaignWorkerSettings, WorkerMessage>({
        index,
        seed,
        historyFolder: folder,
        script: 'test/faults/worker/worker.ts',
        ...nodeWithEdits(edits),
        settings: {
          urls: Array.from({ length: SERVERS }, (_url, node) => network.url(index, node)),
          keyPrefix: KEY_PREFIX,
          ttlMs: TTL_MS,
          load: { ...USUAL_LOAD, ...schedule.load },
          resourcePort: resource.port,
          // Clocks of machines that are kept in step are some milliseconds apart.
          wallSkewMs: (index - 1.5) * 10,
          options: schedule.options ?? {},
        },
      }),
  );
}
