import type { WorkerProcess } from '../../load/worker-process.ts';
import type { CampaignWorkerSettings, WorkerMessage } from './worker-settings.ts';

/** A worker of the campaign, seen from its parent. */
export type CampaignWorker = WorkerProcess<CampaignWorkerSettings, WorkerMessage>;
