import type { RedisServer } from '../../support/redis-servers/index.ts';

/**
 * A state of a real server in which it refuses commands, says nothing, or forgets something. One at a time on a server,
 * and over before the server is restarted with its data. The server is a process of this machine without login.
 */
export interface ErrorCondition {
  /** Unique, for people and for logs. */
  readonly name: string;
  /**
   * - `refuses`: every ACQUIRE is answered with an error, or no connection comes about, until `end`.
   * - `silent`: the server answers nobody, until `end`.
   * - `momentary`: over at once; ACQUIRE may fail meanwhile. `end` has nothing to do.
   */
  readonly kind: 'refuses' | 'silent' | 'momentary';
  /** The server forgets locks and fences: their holder repairs it, and without a guard others may be faster. */
  readonly forgets?: boolean;
  /** Clients lose their connections, and for as long as it lasts they get no new ones. */
  readonly isOffline?: boolean;
  /** Clients have to join again, and report that the node has left. */
  readonly rejoins?: boolean;
  /** The guard of the server begins again: it may not vote for a while after `end`. */
  readonly beginsGuard?: boolean;
  /**
   * Resolves when the condition holds, with what ends it.
   * @throws {Error} for a server in a container or named in REDIS_NODES
   */
  begin(server: RedisServer): Promise<EndCondition>;
}

/**
 * Resolves when the server is as it was before; may have to wait until a silence ends by itself. Does nothing for a
 * server that is not running: what a condition sets does not outlive a restart.
 */
export type EndCondition = () => Promise<void>;

/** Begin of a condition: resolves with its end. */
type Begin = (server: RedisServer) => Promise<EndCondition>;

/** A condition for processes of this machine only; others throw. */
export function errorCondition(facts: Omit<ErrorCondition, 'begin'>, begin: Begin): ErrorCondition {
  return {
    ...facts,
    begin: async (server) => {
      if (server.pid === undefined) {
        throw new Error(
          `${facts.name}: the server on port ${server.port} is no process of this machine: put redis-server on PATH, or set REDIS_SERVERS=package`,
        );
      }
      const end = await begin(server);
      return async () => {
        if (!server.isRunning) return;
        try {
          await end();
        } catch (error) {
          if (server.isRunning) throw error;
        }
      };
    },
  };
}
