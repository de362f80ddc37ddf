import type { MemoryLockServer } from '../../../lib/testing/index.ts';

export type WireKind = 'join' | 'acquire' | 'extend' | 'release' | 'inspect' | 'examine';

/** One command on its way to a server and back. */
export interface WireCommand {
  readonly kind: WireKind;
  /** For the trace. */
  readonly text: string;
  run(memory: MemoryLockServer): unknown;
  /** Called once. */
  settle(reply: unknown): void;
}
