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
} from '../../lib/core/nodes/lock-node.ts';
import { MemoryLockServer } from '../../lib/testing/index.ts';
import { pairsOf } from '../../lib/testing/memory/memory-state.ts';

/** Forgets nothing: an abandoned attempt keeps blocking with its ballot. */
export class NeverRestores extends MemoryLockServer {
  override release(request: ReleaseRequest): ReleaseReply {
    return super.release({ ...request, granted: true });
  }
}

/** Forgets granted ballots as if they had been abandoned. */
export class RestoresGranted extends MemoryLockServer {
  override release(request: ReleaseRequest): ReleaseReply {
    return super.release({ ...request, granted: false });
  }
}

/** A re-ballot takes its own earlier ballot for what was before the attempt. */
export class ReballotForgetsPrevious extends MemoryLockServer {
  override acquire(request: AcquireRequest): AcquireReply {
    const before = pairsOf(request.names).map((pair) => ({
      pair,
      floor: this.state.floors.get(pair.floor)?.floor ?? 0,
    }));
    const reply = super.acquire(request);
    if (reply.kind !== 'accepted') return reply;
    for (const { pair, floor } of before) {
      this.state.floors.replace(pair.floor, { floor: request.ballot, previous: floor });
    }
    return reply;
  }
}

/** Sets a missing lock again although a newer ballot was accepted. */
export class ExtendsWithoutFloor extends MemoryLockServer {
  override extend(request: ExtendRequest): ExtendReply {
    for (const pair of pairsOf(request.names)) {
      if (this.state.locks.get(pair.lock) === undefined) this.state.floors.delete(pair.floor);
    }
    return super.extend(request);
  }
}

/** Extends the keys it can, not all or none. */
export class ExtendsPartially extends MemoryLockServer {
  override extend(request: ExtendRequest): ExtendReply {
    const reply = super.extend(request);
    if (reply.kind !== 'lost') return reply;
    for (const { lock } of pairsOf(request.names)) {
      if (this.state.locks.get(lock) === undefined)
        this.state.locks.set(lock, request.holder, request.ttlMs);
    }
    return reply;
  }
}

/** Gives an extended lock exactly the asked life, even when it had a longer one. */
export class Shortens extends MemoryLockServer {
  override extend(request: ExtendRequest): ExtendReply {
    const reply = super.extend(request);
    if (reply.kind !== 'extended') return reply;
    for (const { lock } of pairsOf(request.names))
      this.state.locks.set(lock, request.holder, request.ttlMs);
    return reply;
  }
}

/** Takes a lock that somebody holds. */
export class IgnoresHeld extends MemoryLockServer {
  override acquire(request: AcquireRequest): AcquireReply {
    for (const { lock } of pairsOf(request.names)) {
      if (this.state.locks.get(lock) !== request.holder) this.state.locks.delete(lock);
    }
    return super.acquire(request);
  }
}

/** Names the held key that stays held longest, so that nodes may name different ones. */
export class NamesTheLongest extends MemoryLockServer {
  override acquire(request: AcquireRequest): AcquireReply {
    const reply = super.acquire(request);
    const longest = this.inspect(request);
    if (reply.kind !== 'held' || longest.kind !== 'inspected' || longest.holder === null)
      return reply;
    const { holder, remainingMs } = longest;
    return { ...reply, holder, remainingMs };
  }
}

/** Refuses its own accepted message when it comes twice. */
export class RefusesDuplicates extends MemoryLockServer {
  override acquire(request: AcquireRequest): AcquireReply {
    const reply = super.acquire(request);
    const own = pairsOf(request.names).every(
      ({ lock }) => this.state.locks.get(lock) === request.holder,
    );
    const seen = `${request.holder} ${request.ballot}`;
    const again = this.#seen.has(seen);
    this.#seen.add(seen);
    if (!own || !again || reply.kind !== 'accepted') return reply;
    return {
      kind: 'stale',
      floor: request.ballot,
      nowMicros: this.state.nowMicros(),
      byClock: false,
    };
  }

  readonly #seen = new Set<string>();
}

/** Compares with `<` instead of `<=`: one ballot for two holders. */
export class AcceptsEqualBallots extends MemoryLockServer {
  override acquire(request: AcquireRequest): AcquireReply {
    for (const pair of pairsOf(request.names)) {
      const floor = this.state.floors.get(pair.floor);
      if (floor?.floor === request.ballot && this.state.locks.get(pair.lock) === undefined) {
        this.state.floors.replace(pair.floor, { ...floor, floor: floor.floor - 1 });
      }
    }
    return super.acquire(request);
  }
}

/** Deletes the lock of any holder. */
export class ReleasesAnything extends MemoryLockServer {
  override release(request: ReleaseRequest): ReleaseReply {
    for (const { lock } of pairsOf(request.names)) {
      if (this.state.locks.get(lock) !== undefined)
        this.state.locks.set(lock, request.holder, null);
    }
    return super.release(request);
  }
}

/** Votes at once after a restart. */
export class SkipsQuarantine extends MemoryLockServer {
  override join(request: JoinRequest): JoinReply {
    return super.join({ ...request, restartGuardMs: 0 });
  }
}

/** Every join starts the quarantine again. */
export class ProlongsQuarantine extends MemoryLockServer {
  override join(request: JoinRequest): JoinReply {
    this.state.markers.delete(request.markerName);
    return super.join(request);
  }
}

/** Names somebody whatever was asked for. */
export class PassesAlways extends MemoryLockServer {
  override release(request: ReleaseRequest): ReleaseReply {
    return super.release({ ...request, pass: true });
  }
}

/** Names nobody. */
export class PassesNever extends MemoryLockServer {
  override release(request: ReleaseRequest): ReleaseReply {
    return super.release({ ...request, pass: false });
  }
}

/** Keeps a free lock for as long as it would be held. */
export class KeepsTooLong extends MemoryLockServer {
  override release(request: ReleaseRequest): ReleaseReply {
    const reply = super.release(request);
    for (const { lock } of pairsOf(request.names)) {
      const value = this.state.locks.get(lock);
      if (value?.startsWith('#')) this.state.locks.set(lock, value, 60_000);
    }
    return reply;
  }
}

/** Keeps each line for as long as the latest in it says. */
export class ShortensLines extends MemoryLockServer {
  override wait(request: WaitRequest): WaitReply {
    const reply = super.wait(request);
    const lock = request.names.locks[0]!;
    const queued = this.state.queues.get(lock);
    if (queued !== undefined) this.state.queues.set(lock, queued, request.lifeMs);
    return reply;
  }
}

/** Orders by its own clock, whatever ticket is asked for. */
export class IgnoresTickets extends MemoryLockServer {
  override wait(request: WaitRequest): WaitReply {
    return super.wait({ ...request, ticket: 0 });
  }
}

/** Remembers nothing beyond the life of the lock, and has no clock floor to make up for it. */
export class FloorsDieWithLocks extends MemoryLockServer {
  override acquire(request: AcquireRequest): AcquireReply {
    const reply = super.acquire(request);
    for (const pair of pairsOf(request.names)) {
      const floor = this.state.floors.get(pair.floor);
      if (reply.kind === 'accepted' && floor)
        this.state.floors.set(pair.floor, floor, request.ttlMs);
    }
    return reply;
  }
}
