import { setWallClockSkew } from './wall-clock.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { HistoryFile } from '../../history/history-file.ts';
import { historyNow } from '../../history/lock-history.ts';
import { answerQuestions, programSettings } from '../../support/program.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { ResourceClient } from '../resource/resource-client.ts';
import { burst } from './burst.ts';
import { Caller, type CallerTools } from './caller.ts';
import { LockRecorder } from './lock-recorder.ts';
import { MachineEnvironment } from './machine-environment.ts';
import { NotingNode } from './noting-node.ts';
import type { WorkerCommand, WorkerSettings } from './worker-settings.ts';

// Process of the campaign: callers that compete for a few records until the parent disconnects. It then lets go of
// everything and has to end by itself.

const settings = programSettings<WorkerSettings>();
const { name, urls, keyPrefix, ttlMs, options, load } = settings;
const environment = new MachineEnvironment();
const file = new HistoryFile<CampaignEvent>(settings.historyPath);
const addresses = urls.map((url) => new URL(url).host);
const recorder = new LockRecorder(file, name, environment, addresses, settings.notePath);
const READY_LIMIT_MS = 3_000;
let stopping = false;
/** Resolves when callers may go on. */
let mayGoOn = Promise.resolve();
let goOn = (): void => undefined;
/** Harm that the next holder is to suffer between its check and its write. */
let suffering: WorkerCommand | undefined;

/** Act that is due when the next caller has asked for a lock. */
let uponNextAsk: (() => void) | undefined;

function mark(what: 'worker-started' | 'worker-stopped' | 'worker-resumed' | 'worker-blocked') {
  file.append({ type: 'mark', process: 'campaign', at: historyNow(), mark: what, worker: name });
}

function block(durationMs: number): void {
  mark('worker-blocked');
  const until = historyNow() + durationMs;
  while (historyNow() < until);
}

/** Between the check and the write of a holder: what this process was asked to suffer there. */
function suffer(): void {
  const command = suffering;
  suffering = undefined;
  if (command?.type === 'block-between-check-and-write') block(command.durationMs);
  if (command?.type !== 'stop-between-check-and-write') return;
  mark('worker-stopped');
  // Stops as a debugger or a suspended machine would; this returns when somebody lets the process go on.
  process.kill(process.pid, 'SIGSTOP');
  mark('worker-resumed');
}

/** The votes of a caller are on their way. */
function asked(): void {
  const due = uponNextAsk;
  uponNextAsk = undefined;
  due?.();
}

/** Once votes have left, and before their answers are read. */
function blockDuringVotes(durationMs: number): Promise<void> {
  return new Promise((resolve) => {
    uponNextAsk = () => setImmediate(() => resolve(block(durationMs)));
  });
}

async function openTools(): Promise<CallerTools> {
  const redlock = new Redlock(
    urls.map((url, node) =>
      settings.notesVotes ? new NotingNode(url, node, recorder) : new RedisLockNode(url),
    ),
    { ...options, ttl: ttlMs, keyPrefix, onEvent: recorder.listen },
    environment,
  );
  redlock.open();
  // Waits as the module does at its start.
  await redlock.ready(READY_LIMIT_MS);
  const resource = await ResourceClient.connect(settings.resourcePort);
  return { settings, redlock, resource, recorder, afterAsking: asked, beforeWrite: suffer };
}

async function main(): Promise<void> {
  mark('worker-started');
  process.on('unhandledRejection', (error) => recorder.problem('unhandled-rejection', error));
  process.on('uncaughtExceptionMonitor', (error) => recorder.problem('uncaught-exception', error));
  setWallClockSkew(settings.wallSkewMs);
  // The parent may be done before this process is up.
  const disconnected = new Promise<void>((resolve) =>
    process.connected ? process.once('disconnect', resolve) : resolve(),
  );
  const tools = await openTools();
  const callers = Array.from({ length: load.callers }, (_, index) => new Caller(tools, index));
  const extra = new Caller(tools, load.callers);
  const turn = async (): Promise<boolean> => {
    await mayGoOn;
    return !stopping;
  };
  answerQuestions(undefined, async (command: WorkerCommand) => {
    switch (command.type) {
      case 'set-wall-clock':
        return setWallClockSkew(command.skewMs);
      case 'block-during-votes':
        return blockDuringVotes(command.durationMs);
      case 'rest':
        mayGoOn = new Promise((resolve) => (goOn = resolve));
        return void (await Promise.all(callers.map((caller) => caller.present)));
      case 'go-on':
        return goOn();
      case 'use':
        return extra.use([command.key], command.waitMs);
      case 'burst':
        return burst(tools, command.keys, command.waitMs);
      default:
        suffering = command;
    }
  });
  const competing = Promise.all(callers.map((caller) => caller.compete(turn)));
  await Promise.race([disconnected, competing.then(() => disconnected)]);
  stopping = true;
  goOn();
  await competing;
  const from = historyNow();
  await tools.redlock.close();
  recorder.append({ type: 'closed', from, at: historyNow() });
  tools.resource.close();
}

await main();
