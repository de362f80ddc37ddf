/** The ways to get Redis, in the order in which they are tried. */
export const REDIS_WAYS = ['urls', 'path', 'docker', 'package'] as const;

export type RedisWay = (typeof REDIS_WAYS)[number];

/** The options for the start of one server. Without options: no persistence, no password, plain TCP. */
export interface RedisServerOptions {
  /** Append-only file, written before each reply. Data then survives `restart({ keepData: true })`. Default false. */
  appendonly?: boolean;
  /** The password of the default user. */
  requirepass?: string;
  /** The lines of an ACL file, for example `user app on >secret ~* +@all`. */
  acl?: readonly string[];
  /** The user which readiness checks and `url` log in as; needed when the ACL closes the default user. */
  user?: { readonly name: string; readonly password: string };
  /**
   * PEM texts. With them the port speaks TLS only. `clientCertificates`: clients must show one that `ca` signed; then
   * `cert` has to be good for a client as well. Default false.
   */
  tls?: {
    readonly cert: string;
    readonly key: string;
    readonly ca: string;
    readonly clientCertificates?: boolean;
  };
  /** Whether `moveClock` is possible: the server is then started under libfaketime. Linux processes only. Default false. */
  movableClock?: boolean;
  /** A Sentinel that watches nothing; all other options are then left out. Default false. */
  sentinel?: boolean;
  /** Further command line arguments, for example `['--maxmemory', '10mb']`; they override the ones above. */
  args?: readonly string[];
}

export interface RestartOptions {
  readonly keepData?: boolean;
  readonly args?: readonly string[];
}

/** An independent Redis server. */
export interface RedisServer {
  /** `redis://` or `rediss://` with credentials where there are any. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Known for servers which are processes of this machine; changes with a restart. */
  readonly pid: number | undefined;
  /** False while killed or stopped, and when the server has died by itself. A frozen server is running. */
  readonly isRunning: boolean;
  /** Whether freeze, resume, kill and restart are possible; otherwise they throw an error that says why. */
  readonly canFault: boolean;
  /** SIGSTOP: connections stay open and nothing is answered. Resolves when the server has really stopped. */
  freeze(): Promise<void>;
  /** SIGCONT: a frozen server goes on, and answers what has piled up. */
  resume(): Promise<void>;
  /** SIGKILL, frozen or not. Resolves when the process is gone; its data directory is kept for a restart. */
  kill(): Promise<void>;
  /**
   * Starts the server again on the same port, ending it first when it runs. It comes back empty, unless `keepData`
   * keeps its AOF or RDB files: then a running server is shut down in order, and a killed one finds what it had written.
   * `args`: further command line arguments for this start only. The clock keeps its offset.
   */
  restart(options?: RestartOptions): Promise<void>;
  /**
   * Sets how far the wall clock of the server is from the real one, ms; negative: behind. Its monotonic clock goes on as
   * before. Resolves when TIME shows it, a second later at most; of a server that is frozen or not running, at once, and it
   * finds the new time when it goes on. For servers started with `movableClock`; others throw an error that says so.
   */
  moveClock(offsetMs: number): Promise<void>;
  /** Ends the server and removes its data. May be called twice. */
  stop(): Promise<void>;
}

/** A way that works here, found once and handed on to other processes as JSON. */
export type FoundRedis =
  | { readonly way: 'urls'; readonly version: string; readonly urls: readonly string[] }
  | { readonly way: 'docker'; readonly version: string; readonly image: string }
  | {
      readonly way: 'path' | 'package';
      readonly version: string;
      /** Absolute path of a redis-server executable. */
      readonly command: string;
      /** The value for LD_LIBRARY_PATH where the libraries are not on the system. */
      readonly libraryPath?: string;
    };

/** Reason why a way does not work here, for the error that lists all ways. */
export interface NotFound {
  readonly reason: string;
}

/** Starts servers in the way that was found. */
export interface RedisProvider {
  readonly way: RedisWay;
  /** The version of the server, for example `7.0.15`. */
  readonly version: string;
  /** A line for people: which way serves, and the version. */
  readonly description: string;
  /** Whether servers can be frozen, killed and restarted. */
  readonly canFault: boolean;
  /** Starts `count` independent servers at once and resolves when all of them answer. */
  start(count: number, options?: RedisServerOptions): Promise<RedisServer[]>;
}
