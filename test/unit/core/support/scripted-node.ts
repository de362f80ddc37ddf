import type { LockEvent } from '../../../../lib/core/events.ts';
import type {
  LinkSettings,
  LockNode,
  LockNodeListener,
} from '../../../../lib/core/nodes/lock-node.ts';
import { NodeSet } from '../../../../lib/core/nodes/node-set.ts';
import type { NodeSetListener } from '../../../../lib/core/nodes/node-session.ts';
import type { RedlockOptions } from '../../../../lib/core/options/options.ts';
import { resolveOptions } from '../../../../lib/core/options/resolve-options.ts';
import { ManualEnvironment } from '../../../support/manual-environment.ts';

type Name = 'join' | 'acquire' | 'extend' | 'release' | 'inspect' | 'wait';

interface OpenCommand {
  readonly name: Name;
  readonly request: unknown;
  readonly settle: (reply: never) => void;
}

/** A node of which a test decides everything: answers, connections, and whether it collects. */
export class ScriptedNode implements LockNode {
  readonly address: string;
  hasCollected = false;
  isClosed = false;
  listener!: LockNodeListener;
  settings!: LinkSettings;
  /** Commands without an answer, oldest first. */
  readonly waiting: OpenCommand[] = [];
  /** Story of all that happened, in order. */
  readonly story: string[] = [];
  /** Channel where it says whose turn it is. */
  channel: string | undefined;

  constructor(address: string) {
    this.address = address;
  }

  open(listener: LockNodeListener, settings: LinkSettings): void {
    this.listener = listener;
    this.settings = settings;
  }

  readonly join = this.#receiver('join');
  readonly acquire = this.#receiver('acquire');
  readonly extend = this.#receiver('extend');
  readonly release = this.#receiver('release');
  readonly inspect = this.#receiver('inspect');
  readonly wait = this.#receiver('wait');

  examine(): void {}

  flush(): void {
    this.hasCollected = false;
    this.story.push('flush');
  }

  listen(channel: string): void {
    this.channel = channel;
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }

  /** Answers the oldest open command of this name. */
  answer(name: Name, reply: object): void {
    const command = this.waiting.find((each) => each.name === name);
    if (command === undefined) throw new Error(`No ${name} is open.`);
    this.waiting.splice(this.waiting.indexOf(command), 1);
    command.settle(reply as never);
  }

  #receiver(name: Name) {
    return (request: unknown, settle: (reply: never) => void): boolean => {
      this.waiting.push({ name, request, settle });
      this.story.push(name);
      return this.hasCollected;
    };
  }
}

/** Scripted nodes as one set, in manual time. */
export function scriptedSet(
  { size = 1, ...options }: RedlockOptions & { readonly size?: number } = {},
  listener: Partial<NodeSetListener> = {},
) {
  const environment = new ManualEnvironment();
  // Tests begin later than at instant 0, where nothing has happened before.
  environment.skip(1_000);
  const nodes = Array.from({ length: size }, (_, index) => new ScriptedNode(`node${index}:6379`));
  const events: LockEvent[] = [];
  const resolved = resolveOptions(
    { ttl: 3_000, restartGuard: false, onEvent: (event) => void events.push(event), ...options },
    size,
  );
  const none = () => undefined;
  const listeners = { joined: none, turn: none, listening: none, clockMoved: none, ...listener };
  const set = new NodeSet(nodes, resolved, environment, listeners);
  /** Opens all nodes, which vote then. */
  const connect = () => {
    set.open();
    for (const { listener } of nodes) listener.opened();
    for (const node of nodes) node.answer('join', { kind: 'joined', quarantineMs: 0 });
  };
  return { environment, nodes, set, events, node: nodes[0]!, connect };
}
