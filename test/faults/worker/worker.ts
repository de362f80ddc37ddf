import { setWallClockSkew } from './wall-clock.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { HistoryFile } from '../../history/history-file.ts';
import { historyNow } from '../../history/lock-history.ts';
import { LockRecorder } from '../../load/lock-recorder.ts';
import { MachineEnvironment } from '../../load/machine-environment.ts';
import type { CampaignEvent, ProblemEvent } from '../campaign-event.ts';
import { ResourceClient } from '../resource/resource-client.ts';
import { Caller, type CallerTools } from './caller.ts';
import type { CampaignWorkerSettings, WorkerCommand, WorkerMessage } from './worker-settings.ts';

// One process of the campaign: callers that compete for a few records until the parent disconnects. It then lets go of
// everything and has to end by itself.

const settings = JSON.parse(process.argv[2]!) as CampaignWorkerSettings;
const file = new HistoryFile<CampaignEvent>(settings.historyPath);
const READY_LIMIT_MS = 3_000;
let stopping = false;
/** What the next holder is to suffer between its check and its write. */
let suffering: WorkerCommand | undefined;

function problem(kind: ProblemEvent['kind'], error: unknown): void {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  file.append({ type: 'problem', process: settings.name, at: historyNow(), kind, message });
}

function mark(what: 'worker-stopped' | 'worker-resumed' | 'worker-blocked'): void {
  const worker = settings.name;
  file.append({ type: 'mark', process: 'campaign', at: historyNow(), mark: what, worker });
}

/** Between the check and the write of a holder: what this process was told to suffer there. */
function suffer(): void {
  const command = suffering;
  suffering = undefined;
  if (command?.type === 'stop-between-check-and-write') {
    mark('worker-stopped');
    // As a debugger or a suspended machine would; this returns when somebody lets the process go on.
    process.kill(process.pid, 'SIGSTOP');
    mark('worker-resumed');
  }
  if (command?.type === 'block-between-check-and-write') {
    mark('worker-blocked');
    const until = historyNow() + command.durationMs;
    while (historyNow() < until);
  }
}

function obey(command: WorkerCommand): void {
  if (command.type === 'set-wall-clock') setWallClockSkew(command.skewMs);
  else suffering = command;
}

async function openTools(): Promise<CallerTools> {
  const environment = new MachineEnvironment(0);
  const recorder = new LockRecorder(file, settings.name, environment);
  const { urls, keyPrefix, ttlMs, options } = settings;
  const redlock = new Redlock(
    urls.map((url) => new RedisLockNode(url)),
    { ...options, ttl: ttlMs, keyPrefix, onEvent: recorder.listen },
    environment,
  );
  redlock.open();
  // As the module does at its start.
  await redlock.ready(READY_LIMIT_MS);
  const resource = await ResourceClient.connect(settings.resourcePort);
  return { settings, redlock, resource, recorder, file, beforeWrite: suffer };
}

async function main(): Promise<void> {
  process.on('unhandledRejection', (error) => problem('unhandled-rejection', error));
  process.on('uncaughtExceptionMonitor', (error) => problem('uncaught-exception', error));
  setWallClockSkew(settings.wallSkewMs);
  // The parent may be done before this process is up.
  const disconnected = new Promise<void>((resolve) =>
    process.connected ? process.once('disconnect', resolve) : resolve(),
  );
  process.on('message', obey);
  const tools = await openTools();
  const started: WorkerMessage = { type: 'started' };
  process.send?.(started, () => undefined);
  const callers = Array.from({ length: settings.load.callers }, (_, index) =>
    new Caller(tools, index).compete(() => !stopping),
  );
  await Promise.race([disconnected, Promise.all(callers)]);
  stopping = true;
  await Promise.all(callers);
  const from = historyNow();
  await tools.redlock.close();
  file.append({ type: 'closed', process: settings.name, from, at: historyNow() });
  tools.resource.close();
}

await main();
