import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
} from '../../../lib/core/nodes/lock-node.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { historyNow } from '../../history/lock-history.ts';
import type { LockRecorder } from './lock-recorder.ts';

/** A server whose votes are written down when they arrive, also those that come too late to count. */
export class NotingNode extends RedisLockNode {
  constructor(
    url: string,
    private readonly index: number,
    private readonly recorder: LockRecorder,
  ) {
    super(url);
  }

  override acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): boolean {
    return super.acquire(request, this.#noting(request.holder, settle));
  }

  override extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): boolean {
    return super.extend(request, this.#noting(request.holder, settle));
  }

  #noting<Reply extends AcquireReply | ExtendReply>(
    holder: string,
    settle: (reply: Reply) => void,
  ): (reply: Reply) => void {
    const askedAt = historyNow();
    const node = this.index;
    return (reply) => {
      if (reply.kind === 'accepted' || reply.kind === 'extended')
        this.recorder.append({ type: 'voted', holder, node, askedAt, at: historyNow() });
      settle(reply);
    };
  }
}
