import type { LockEvent } from '../../../lib/core/events.ts';

const FOLLOWS = { left: 'joined failing', joined: 'left failing', failing: 'joined' } as const;
type NodeState = keyof typeof FOLLOWS;

/** Whether the events of one process come in pairs: of each node, and of each lock. */
export class EventCheck {
  readonly #broke: (message: string) => void;
  readonly #nodes = new Map<string, NodeState>();
  readonly #locks = new Set<string>();

  constructor(broke: (message: string) => void) {
    this.#broke = broke;
  }

  received(event: LockEvent): void {
    const type: string = event.type;
    if ('address' in event && event.type !== 'configurations-differ') {
      const before = this.#nodes.get(event.address) ?? 'left';
      const now = type.slice('node-'.length) as NodeState;
      if (!FOLLOWS[before].includes(now)) this.#broke(`${event.address} ${now} after ${before}`);
      this.#nodes.set(event.address, now);
    } else if ('token' in event) {
      const lock = `${event.keys.join()} with token ${event.token}`;
      if (type === 'acquired') this.#locks.add(lock);
      else if (type !== 'lost' && type !== 'released') return;
      else if (!this.#locks.delete(lock)) this.#broke(`${lock} ${type}, although it is not held`);
    }
  }

  /** Everything has ended. */
  closed(): void {
    for (const lock of this.#locks) this.#broke(`${lock} never ended`);
  }
}
