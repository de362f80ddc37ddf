import { inspect } from 'node:util';
import type { LockLostError, NodeCause, StaleTokenError } from './errors.ts';
import { inModuleContext } from './system-environment.ts';

/** The method under `@Fenced` that made a call for a lock. */
export interface Caller {
  /** The method, `Class.method`; absent for calls of `LockService`. */
  readonly where?: string;
  /** The key template of its `@Fenced`, such as `'seat:{0}'`; several are joined by commas. Absent for a key function. A label for metrics. */
  readonly template?: string;
}

/** The fields that every event about a lock carries. */
export interface AboutKeys extends Caller {
  /** The keys of the lock, or of the call that got none. */
  readonly keys: readonly string[];
}

/** The fields that every event about a granted lock has. */
export interface AboutLock extends AboutKeys {
  /** The value of the token; the number of its grant while a token source has not issued one. */
  readonly token: number;
  /** The random identity of the holder, as the servers know it and `inspect` shows it. */
  readonly holder: string;
}

export interface AfterWait {
  /** The time that the caller waited. */
  readonly waitedMs: number;
}

interface WithHold {
  /** The time since it was granted. */
  readonly heldMs: number;
}

interface WithCauses {
  /** The entries, one for each server that gave no lock, or did not confirm. */
  readonly causes: readonly NodeCause[];
}

interface WithValidity {
  /** The time for which the lock is valid from now on. */
  readonly remainingMs: number;
}

interface AboutNode {
  /** The host and the port, never a password. */
  readonly address: string;
}

/** The nodes of a lock service, and how many of them a lock needs. */
export interface Configuration {
  /** The host and the port of each, in the order of the alphabet. */
  readonly nodes: readonly string[];
  readonly quorum: number;
}

interface AboutRun {
  /** The name of the job. */
  readonly name: string;
  /** The scheduled time of the run, in ISO 8601. */
  readonly scheduled: string;
  /** The method, `Class.method`; absent for a job of node-cron. */
  readonly where?: string;
}

/** The events of runs of jobs under `@FencedCron`. */
export type RunEvent =
  /** The work of a run begins. */
  | (AboutRun & {
      readonly type: 'run-started';
      /** The number of times that it was begun: more than 1 where it has died before. */
      readonly attempt: number;
      /** The time since it was scheduled, by the clock of this host. */
      readonly lateMs: number;
    })
  /** The work of a run has ended. */
  | (AboutRun & {
      readonly type: 'run-ended';
      /** The time that it took. */
      readonly ranMs: number;
      /** It is present where the run failed. */
      readonly error?: unknown;
    })
  /**
   * Some runs were not begun at their times, or have died. It comes from the process that begins the run of `scheduled`, or skips
   * it.
   */
  | (AboutRun & {
      readonly type: 'run-missed';
      /** The scheduled times of the runs that were missed. */
      readonly times: readonly string[];
      /** Whether the run of `scheduled` begins now. */
      readonly isRun: boolean;
    });

/** The events of locks, nodes and runs, for logs and metrics. Contention is not an error, and no event carries a secret. */
export type LockEvent =
  | RunEvent
  /** A caller has its lock. */
  | (AboutLock &
      AfterWait & {
        readonly type: 'acquired';
        readonly tries: number;
        /** The time of the round trip to the quorum that granted it. */
        readonly roundTripMs: number;
      })
  /** A caller found the lock held until its wait was over. */
  | (AboutKeys & AfterWait & { readonly type: 'busy' })
  /** A caller got no lock because too few servers answered. */
  | (AboutKeys & AfterWait & WithCauses & { readonly type: 'unavailable' })
  /** The validity of a held lock was renewed. */
  | (AboutLock & WithValidity & { readonly type: 'extended' })
  /** A renewal got no quorum; the lock is neither lost nor renewed, and the renewal is tried again. */
  | (AboutLock & WithValidity & WithCauses & { readonly type: 'extension-failed' })
  /** The lock was lost: at most once for each lock, and never together with `released`. */
  | (AboutLock & { readonly type: 'lost'; readonly error: LockLostError })
  /**
   * `maxHold` was over while the work still ran. A `lost` with reason `overdue` follows; nobody else has the keys before the work
   * or the validity ends.
   */
  | (AboutLock & WithHold & { readonly type: 'overdue' })
  /** A lock without `maxHold` has been held for ten ttl, and is still renewed. It is said once. */
  | (AboutLock & WithHold & { readonly type: 'held-long' })
  /** The last section ended, and the servers are being told; once for each lock that was not lost. */
  | (AboutLock & WithHold & { readonly type: 'released' })
  /** The outer work ended more than one ttl ago, but sections that joined its lock still run and keep it. Once. */
  | (AboutLock & {
      readonly type: 'release-delayed';
      /** The number of those sections. */
      readonly sections: number;
      /** The time since the outer work ended. */
      readonly sinceMs: number;
    })
  /** Fewer servers than a quorum confirmed the release; it is repeated, and the key expires after its ttl at the latest. */
  | (AboutLock & WithCauses & { readonly type: 'release-incomplete' })
  /** This process leads from now on, by the lock of a class under `@Leader`. */
  | (AboutLock & { readonly type: 'elected' })
  /**
   * This process leads no longer: the lock was lost, `onElected` failed, or the application shuts down. It comes once after each
   * `elected`.
   */
  | (AboutLock & WithHold & { readonly type: 'deposed' })
  /**
   * In the last ten minutes, this key was locked with more `permits` than this call names, or without any. Such a holder does not
   * count here, so there may be more holders at once than anybody meant. The event comes once for a key.
   */
  | (AboutKeys & {
      readonly type: 'permits-differ';
      /** The number that this call named. */
      readonly permits: number;
    })
  /** The fence of the module rejected a token that is not the newest any more; nothing was written with it. */
  | (AboutKeys & { readonly type: 'stale'; readonly error: StaleTokenError })
  /** A round trip to a quorum took more than a tenth of the TTL. At most one a minute. */
  | { readonly type: 'slow-quorum'; readonly roundTripMs: number; readonly ttlMs: number }
  /** The server gives locks, after its restart guard if there is one. `node-left`, `node-failing`, or one after the other, end that. */
  | (AboutNode & {
      readonly type: 'node-joined';
      readonly quarantineMs: number;
      /** Whether the server that answers at the address is another one now, or another start of it. */
      readonly isMoved?: true;
      /**
       * For how long, at least, this server has been up. It is present where the address leads to several servers: this one was
       * up already when the one before it was joined, so the locks that the other one granted are lost.
       */
      readonly upMs?: number;
    })
  /**
   * A process beside this one uses other nodes, or another quorum, so that both could hold one lock at once. Once for each such
   * configuration; `address` is a node that knows both.
   */
  | (AboutNode & {
      readonly type: 'configurations-differ';
      /** The configuration of this process. */
      readonly own: Configuration;
      /** The configuration of the other one. */
      readonly other: Configuration;
    })
  /** The server can't be asked: its connection closed, or it has forgotten that this process joined. */
  | (AboutNode & {
      readonly type: 'node-left';
      readonly message: string;
      /** Enough other servers give locks. */
      readonly hasQuorum: boolean;
    })
  /**
   * The server gave no lock, or did not answer in time, three times in a row; or it answers no `PING` while no caller
   * asks for locks; or it has been away for 2 s, since it left or since the start. One fault less is tolerated until `node-joined`.
   */
  | (AboutNode & { readonly type: 'node-failing'; readonly reason: string })
  /**
   * Too few servers answer: nobody gets a lock, and held ones may be lost. Once for each outage, when a call gets no lock or it lasts:
   * when too many servers are failing or wait for their restart guard. Never before the first quorum, nor in the shutdown.
   */
  | (WithCauses & { readonly type: 'quorum-lost' })
  /** Once after each `quorum-lost`: enough servers give locks again, as far as known. */
  | {
      readonly type: 'quorum-back';
      /** The time since the outage began. */
      readonly downMs: number;
      /** How many calls were `unavailable` meanwhile. */
      readonly refusedCalls: number;
    };

/**
 * Receives events, in the async context in which this package was loaded. What it throws or rejects with changes nothing; the
 * first failure is logged as an error.
 */
export interface LockEventListener {
  (event: LockEvent): void;
  /** True: `acquired`, `extended` and `released` are of no interest to it, and need not be made. @default false */
  readonly skipsOrdinary?: boolean;
}

/** The way of the events of one service to its listener. */
export class EventSink {
  /** Whether the listener wants `acquired`, `extended` and `released`; otherwise these events are not built. */
  readonly takesOrdinary: boolean;
  readonly #listener: LockEventListener | undefined;
  readonly #onOutage: (event: LockEvent) => void;
  #hasWarned = false;

  /** @param onOutage receives what may begin or end an outage, after the listener */
  constructor(listener: LockEventListener | undefined, onOutage: (event: LockEvent) => void) {
    this.takesOrdinary = listener !== undefined && listener.skipsOrdinary !== true;
    this.#listener = listener;
    this.#onOutage = onOutage;
  }

  /**
   * Runs the listener in the context in which this package was loaded, never in that of a request. One that throws, or rejects,
   * must not change what happens to a lock.
   */
  emit(event: LockEvent): void {
    inModuleContext(() => {
      try {
        const result: unknown = this.#listener?.(event);
        // An async function is assignable to a listener.
        if (typeof result === 'object' && result !== null && 'then' in result)
          Promise.resolve(result).catch((error: unknown) => this.#failed(error));
      } catch (error) {
        this.#failed(error);
      }
      if ('address' in event || event.type === 'unavailable') this.#onOutage(event);
    });
  }

  #failed(error: unknown): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    try {
      process.emitWarning(
        `onEvent failed. Locks are not affected, and later failures are not reported: ${inspect(error)}`,
        { code: 'REDLOCK_LISTENER_FAILED' },
      );
    } catch {
      // A failure that cannot be shown, or warned of, must not end a lock either.
    }
  }
}
