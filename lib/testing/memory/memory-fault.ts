import type { NodeFailure } from '../../core/nodes/lock-node.ts';

/** The commands a fault can hit. */
export type MemoryCommandName = 'join' | 'acquire' | 'extend' | 'release' | 'inspect' | 'examine';

/**
 * What goes wrong with one command:
 * - `lose-request`: it never reaches the server, and no answer comes while this connection lasts;
 * - `lose-reply`: the server executes it, but no answer comes while this connection lasts;
 * - `error`: the server refuses it with this message (`'OOM …'`, `'READONLY …'`, `'NOAUTH …'`) and writes nothing.
 */
export type MemoryFault = 'lose-request' | 'lose-reply' | { readonly error: string };

interface PlannedFault {
  readonly fault: MemoryFault;
  readonly command: MemoryCommandName | undefined;
  left: number;
}

/** The faults that wait for their command, oldest first. */
export class PlannedFaults {
  readonly #planned: PlannedFault[] = [];

  add(fault: MemoryFault, command: MemoryCommandName | undefined, times: number): void {
    this.#planned.push({ fault, command, left: times });
  }

  /** The fault that hits this command, used up by one. */
  take(command: MemoryCommandName): MemoryFault | undefined {
    const index = this.#planned.findIndex(
      (planned) => planned.command === undefined || planned.command === command,
    );
    const planned = this.#planned[index];
    if (planned === undefined) return undefined;
    planned.left -= 1;
    if (planned.left <= 0) this.#planned.splice(index, 1);
    return planned.fault;
  }

  clear(): void {
    this.#planned.length = 0;
  }
}

/** What the server answers to a command that goes wrong; `undefined`: nothing, ever. */
export function executeWith(fault: MemoryFault, run: () => unknown): NodeFailure | undefined {
  if (typeof fault === 'object') return failure('error', fault.error);
  if (fault === 'lose-reply') run();
  return undefined;
}

export const NOT_CONNECTED: NodeFailure = failure('unreachable', 'not connected');
export const NOSCRIPT: NodeFailure = {
  ...failure('error', 'NOSCRIPT No matching script.'),
  mustJoin: true,
};

export const NOT_AN_INTEGER: NodeFailure = {
  ...failure('error', 'ERR value is not an integer or out of range'),
  nothingWritten: false,
};

function failure(reason: NodeFailure['reason'], message: string): NodeFailure {
  return Object.freeze({ kind: 'failed', nothingWritten: true, reason, message });
}
