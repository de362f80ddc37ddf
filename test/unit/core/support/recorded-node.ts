import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  JoinReply,
  JoinRequest,
  LockNodeListener,
  ReleaseReply,
  ReleaseRequest,
} from '../../../../lib/core/nodes/lock-node.ts';
import { MemoryLockNode } from '../../../../lib/testing/index.ts';
import type { MemoryLockNodeOptions, MemoryLockServer } from '../../../../lib/testing/index.ts';

/** One command that the core gave to a node. */
export type RecordedCommand =
  | { readonly name: 'join'; readonly atMs: number; readonly request: JoinRequest }
  | { readonly name: 'acquire'; readonly atMs: number; readonly request: AcquireRequest }
  | { readonly name: 'extend'; readonly atMs: number; readonly request: ExtendRequest }
  | { readonly name: 'release'; readonly atMs: number; readonly request: ReleaseRequest };

/** A node in memory that remembers what it was asked, in order. */
export class RecordedNode extends MemoryLockNode {
  readonly commands: RecordedCommand[] = [];
  /** Lock names that are watched now. */
  readonly watching = new Set<string>();
  resets = 0;
  readonly #nowMs: () => number;
  #listener: LockNodeListener | undefined;

  constructor(server: MemoryLockServer, options: MemoryLockNodeOptions, nowMs: () => number) {
    super(server, options);
    this.#nowMs = nowMs;
  }

  /** What it was asked with this command. */
  asked<Name extends RecordedCommand['name']>(
    name: Name,
  ): Extract<RecordedCommand, { readonly name: Name }>[] {
    return this.commands.filter(
      (command): command is Extract<RecordedCommand, { readonly name: Name }> =>
        command.name === name,
    );
  }

  /** A hint that took another way than the answers, as the second connection of a real node does. */
  tell(lockName: string, holder: string): void {
    this.#listener?.hint(lockName, holder);
  }

  override open(listener: LockNodeListener): void {
    this.#listener = listener;
    super.open(listener);
  }

  override join(request: JoinRequest, settle: (reply: JoinReply) => void): void {
    this.commands.push({ name: 'join', atMs: this.#nowMs(), request });
    super.join(request, settle);
  }

  override acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): void {
    this.commands.push({ name: 'acquire', atMs: this.#nowMs(), request });
    super.acquire(request, settle);
  }

  override extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): void {
    this.commands.push({ name: 'extend', atMs: this.#nowMs(), request });
    super.extend(request, settle);
  }

  override release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): void {
    this.commands.push({ name: 'release', atMs: this.#nowMs(), request });
    super.release(request, settle);
  }

  override watch(lockName: string): void {
    this.watching.add(lockName);
    super.watch(lockName);
  }

  override unwatch(lockName: string): void {
    this.watching.delete(lockName);
    super.unwatch(lockName);
  }

  override reset(): void {
    this.resets += 1;
    super.reset();
  }
}
