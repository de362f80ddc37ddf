import { setImmediate } from 'node:timers/promises';
import {
  LockService,
  type Lock,
  type LockEvent,
  type RedlockModuleOptions,
} from '../../../lib/index.ts';
import { isLeader, Leader, type Candidate } from '../../../lib/leader/index.ts';
import { createMemoryNodes, occupy, type MemoryLockNode } from '../../../lib/testing/index.ts';
import { startModule } from '../../nest/support/applications.ts';
import { Recorder } from '../../nest/support/recorder.ts';

export interface Process {
  readonly nodes: readonly MemoryLockNode[];
  readonly leader: Candidate;
  readonly locks: LockService;
  readonly terms: readonly { readonly lock: Lock; readonly signal: AbortSignal }[];
  readonly events: readonly LockEvent[];
  readonly close: () => Promise<void>;
}

/** The processes of a fleet over the same servers, and what happened in them in its order. */
export class Fleet {
  readonly story: string[] = [];
  readonly recorder = new Recorder();
  readonly #nodes = createMemoryNodes(3);

  async start(
    name: string,
    code: Partial<Candidate> = {},
    options: Partial<RedlockModuleOptions> = {},
  ): Promise<Process> {
    const { story } = this;
    const terms: Process['terms'][number][] = [];
    @Leader('scheduler')
    class Scheduler implements Candidate {
      async onElected(lock: Lock, signal: AbortSignal): Promise<void> {
        story.push(`${name} leads`);
        terms.push({ lock, signal });
        signal.addEventListener('abort', () => story.push(`${name} is told`));
        await code.onElected?.(lock, signal);
      }

      async onDeposed(): Promise<void> {
        story.push(`${name} is deposed`);
        await code.onDeposed?.();
      }
    }
    const nodes = createMemoryNodes(this.#nodes.map(({ server }) => server));
    const events: LockEvent[] = [];
    const onEvent = (event: LockEvent) => void events.push(event);
    const module = await startModule({ providers: [Scheduler] }, { nodes, onEvent, ...options });
    module.useLogger(this.recorder);
    const [leader, locks] = [module.get(Scheduler), module.get(LockService)];
    // Nodes in memory answer within microtasks.
    await setImmediate();
    return { nodes, leader, locks, terms, events, close: () => module.close() };
  }

  occupy() {
    return occupy(this.#nodes, 'leader:scheduler');
  }
}

export const cutOff = ({ nodes }: Process) => nodes.forEach((node) => node.freeze());
export const reconnect = ({ nodes }: Process) => nodes.forEach((node) => node.resume());
export const leads = (processes: readonly Process[]) =>
  processes.map(({ leader }) => isLeader(leader));
