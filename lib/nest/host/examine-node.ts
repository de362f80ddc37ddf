import type { LockNode, NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';

const ASK_AGAIN_MS = 50;

/** Asks a node for the facts of the start-up checks until it gives them or `timeoutMs` are over; never rejects. */
export function examineNode(node: LockNode, timeoutMs: number): Promise<NodeFacts | NodeFailure> {
  return new Promise((resolve) => {
    let failure = silent(timeoutMs);
    let askAgain: NodeJS.Timeout | undefined;
    let isOver = false;
    const finish = (reply: NodeFacts | NodeFailure) => {
      isOver = true;
      clearTimeout(deadline);
      clearTimeout(askAgain);
      resolve(reply);
    };
    const deadline = setTimeout(() => finish(failure), timeoutMs);
    const ask = () =>
      node.examine((reply) => {
        if (isOver) return;
        if (reply.kind === 'facts') return finish(reply);
        failure = reply;
        askAgain = setTimeout(ask, ASK_AGAIN_MS);
      });
    ask();
  });
}

function silent(timeoutMs: number): NodeFailure {
  return {
    kind: 'failed',
    nothingWritten: true,
    reason: 'unreachable',
    message: `no answer within ${Math.round(timeoutMs)} ms`,
  };
}
