import { Redlock } from '../../../lib/core/redlock.ts';
import { createRedisNode } from '../../../test/support/clients.ts';
import { HistoryFile } from '../../../test/history/history-file.ts';
import { historyNow } from '../../../test/history/lock-history.ts';
import { answerQuestions, programSettings } from '../../../test/support/program.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { ResourceClient } from '../world/resource-client.ts';
import { burst, Caller, type CallerTools } from './caller.ts';
import { LockRecorder, NotingNode } from './lock-recorder.ts';
import { MachineEnvironment } from './machine-environment.ts';
import type { WorkerCommand, WorkerSettings } from './worker-settings.ts';

// Process of the campaign: callers that compete for a few records until the parent disconnects. It then lets go of
// everything and has to end by itself.

const settings = programSettings<WorkerSettings>();
const { name, urls, keyPrefix, ttlMs, options, load } = settings;
const environment = new MachineEnvironment();
const file = new HistoryFile<CampaignEvent>(settings.historyPath);
const recorder = new LockRecorder(file, environment, settings);
const READY_LIMIT_MS = 3_000;
let stopping = false;
/** Resolves when callers may go on. */
let mayGoOn = Promise.resolve();
let goOn = (): void => undefined;
/** The harm that the next holder is to suffer between its check and its write. */
let uponNextWrite: (() => void) | undefined;
/** The act that is due when the next caller has asked for a lock. */
let uponNextAsk: (() => void) | undefined;

/** The wall clock of this whole process, as all its code sees it. */
const realNow = Date.now;
let wallSkewMs = settings.wallSkewMs;
Date.now = () => realNow() + wallSkewMs;

function block(durationMs: number): void {
  const until = historyNow() + durationMs;
  while (historyNow() < until);
}

async function openTools(): Promise<CallerTools> {
  const redlock = new Redlock(
    urls.map((url, node) =>
      settings.notesVotes ? new NotingNode(url, node, recorder) : createRedisNode(url),
    ),
    { ...options, ttl: ttlMs, keyPrefix, onEvent: recorder.listen },
    environment,
  );
  redlock.open();
  // Waits as the module does at its start.
  await redlock.ready(READY_LIMIT_MS);
  const resource = await ResourceClient.connect(settings.resourcePort);
  const afterAsking = (): void => {
    uponNextAsk?.();
    uponNextAsk = undefined;
  };
  const beforeWrite = (): void => {
    const suffer = uponNextWrite;
    uponNextWrite = undefined;
    suffer?.();
  };
  return { settings, redlock, resource, recorder, afterAsking, beforeWrite };
}

async function main(): Promise<void> {
  file.append({
    type: 'mark',
    process: 'campaign',
    at: historyNow(),
    mark: 'worker-started',
    worker: name,
  });
  process.on('unhandledRejection', (error) => recorder.problem('unhandled-rejection', error));
  process.on('uncaughtExceptionMonitor', (error) => recorder.problem('uncaught-exception', error));
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
        wallSkewMs = Math.round(command.skewMs);
        return;
      case 'block-during-votes':
        // It blocks when votes have left, and before their answers are read.
        return new Promise((resolve) => {
          uponNextAsk = () => setImmediate(() => resolve(block(command.durationMs)));
        });
      case 'rest':
        mayGoOn = new Promise((resolve) => (goOn = resolve));
        return void (await Promise.all(callers.map((caller) => caller.present)));
      case 'go-on':
        return goOn();
      case 'use':
        return extra.use([command.key], command.waitMs);
      case 'burst':
        return burst(tools.redlock, command.keys, command.waitMs);
      case 'block-between-check-and-write':
        uponNextWrite = () => block(command.durationMs);
        return;
      case 'stop-between-check-and-write':
        // It stops as a debugger or a suspended machine would; it returns when somebody lets the process go on.
        uponNextWrite = () => process.kill(process.pid, 'SIGSTOP');
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
