import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  JoinReply,
  JoinRequest,
  ReleaseReply,
  ReleaseRequest,
  WaitReply,
  WaitRequest,
} from '../../../../lib/core/nodes/lock-node.ts';
import { MemoryLockNode } from '../../../../lib/testing/index.ts';
import type { MemoryLockNodeOptions, MemoryLockServer } from '../../../../lib/testing/index.ts';

interface Requests {
  join: JoinRequest;
  acquire: AcquireRequest;
  extend: ExtendRequest;
  release: ReleaseRequest;
  wait: WaitRequest;
}
type Name = keyof Requests;

/** A command that the core gave to a node. */
export type RecordedCommand<Of extends Name = Name> = {
  [Each in Of]: { readonly name: Each; readonly atMs: number; readonly request: Requests[Each] };
}[Of];

/** A node in memory that remembers what it was asked, in order. */
export class RecordedNode extends MemoryLockNode {
  readonly commands: RecordedCommand[] = [];
  readonly #nowMs: () => number;

  constructor(server: MemoryLockServer, options: MemoryLockNodeOptions, nowMs: () => number) {
    super(server, options);
    this.#nowMs = nowMs;
  }

  /** Commands of this name that it was asked. */
  asked<Of extends Name>(name: Of): RecordedCommand<Of>[] {
    return this.commands.filter((command) => command.name === name) as RecordedCommand<Of>[];
  }

  override join(request: JoinRequest, settle: (reply: JoinReply) => void): void {
    this.#record('join', request);
    super.join(request, settle);
  }

  override acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): boolean {
    this.#record('acquire', request);
    return super.acquire(request, settle);
  }

  override extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): boolean {
    this.#record('extend', request);
    return super.extend(request, settle);
  }

  override release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): boolean {
    this.#record('release', request);
    return super.release(request, settle);
  }

  override wait(request: WaitRequest, settle: (reply: WaitReply) => void): boolean {
    this.#record('wait', request);
    return super.wait(request, settle);
  }

  #record(name: Name, request: Requests[Name]): void {
    this.commands.push({ name, atMs: this.#nowMs(), request } as RecordedCommand);
  }
}
