import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClockLibrary, findClockLibrary } from './clock-library.ts';
import { freePort } from './free-port.ts';
import { GuardedProcess } from './guarded-process.ts';
import { MovableClock } from './movable-clock.ts';
import type { RedisServer, RedisServerOptions, RestartOptions } from './redis-server.ts';
import { type RequestTarget, ping } from './resp-request.ts';
import { serverDirectory } from './server-directory.ts';
import { loginOf, serverArguments, serverFiles, serverUrl } from './server-arguments.ts';

/** An executable of this machine. */
export interface RedisExecutable {
  readonly command: string;
  readonly libraryPath?: string;
}

/** Generous: only a hang crosses it. */
const LIMIT_MS = 60_000;
const HOST = '127.0.0.1';
/** Clock libraries by executable: servers are started by the handful. */
const clockLibraries = new Map<string, Promise<ClockLibrary>>();

/** A Redis server which is a process of this machine, with a temporary directory of its own. */
export class LocalServer implements RedisServer {
  readonly host = HOST;
  readonly canFault = true;
  #process: GuardedProcess | undefined;
  #isFrozen = false;

  private constructor(
    readonly port: number,
    private readonly directory: string,
    private readonly executable: RedisExecutable,
    private readonly options: RedisServerOptions,
    private readonly clock: MovableClock | undefined,
  ) {}

  /** Starts on a free port; another one when somebody else was faster to take it. */
  static async start(
    executable: RedisExecutable,
    options: RedisServerOptions,
  ): Promise<LocalServer> {
    const library = options.movableClock ? await clockLibraryFor(executable) : undefined;
    for (let tries = 1; ; tries += 1) {
      const directory = await serverDirectory('redis');
      const clock = library && new MovableClock(library, directory);
      const server = new LocalServer(await freePort(), directory, executable, options, clock);
      try {
        await server.#launch();
        return server;
      } catch (error) {
        await server.stop();
        if (!(error instanceof PortTakenError) || tries === 20) throw error;
      }
    }
  }

  get url(): string {
    return serverUrl(this.host, this.port, this.options);
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get isRunning(): boolean {
    return this.#process?.isRunning ?? false;
  }

  async freeze(): Promise<void> {
    this.#signal('SIGSTOP');
    this.#isFrozen = true;
    await this.#process?.stopped();
  }

  resume(): Promise<void> {
    this.#signal('SIGCONT');
    this.#isFrozen = false;
    return Promise.resolve();
  }

  async kill(): Promise<void> {
    const running = this.#process;
    this.#isFrozen = false;
    running?.signal('SIGKILL');
    if (running && !(await running.exited(LIMIT_MS))) {
      throw new Error(`redis-server ${running.pid} survives SIGKILL`);
    }
  }

  async restart({ keepData = false, args = [] }: RestartOptions = {}): Promise<void> {
    if (!this.#process) throw new Error(`the server on port ${this.port} was stopped for good`);
    if (keepData && !this.#isFrozen && this.#process.signal('SIGTERM')) {
      await this.#process.exited(LIMIT_MS);
    }
    await this.kill();
    if (!keepData) await this.#empty();
    const deadline = performance.now() + LIMIT_MS;
    for (;;) {
      try {
        return await this.#launch(args);
      } catch (error) {
        if (!(error instanceof PortTakenError) || performance.now() > deadline) throw error;
        await sleep(50);
      }
    }
  }

  async moveClock(offsetMs: number): Promise<void> {
    if (!this.clock) {
      throw new Error(`the server on port ${this.port} was started without movableClock`);
    }
    await this.clock.set(offsetMs);
    if (this.isRunning && !this.#isFrozen) await this.clock.shown(this.#ownSocket);
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
    this.#process?.releaseDirectory();
    this.#process = undefined;
  }

  async #launch(args: readonly string[] = []): Promise<void> {
    const { command, libraryPath } = this.executable;
    for (const [name, text] of serverFiles(this.options)) {
      await writeFile(join(this.directory, name), text, { mode: 0o600 });
    }
    await this.clock?.write();
    const previous = this.#process;
    this.#process = await GuardedProcess.start(
      [...(this.clock?.prefix() ?? []), command, ...this.#arguments(), ...args],
      this.directory,
      this.#logFile,
      {
        ...process.env,
        ...(libraryPath && { LD_LIBRARY_PATH: libraryPath }),
        ...this.clock?.environment(),
      },
    );
    previous?.releaseDirectory();
    try {
      await this.#ready(this.#process);
    } finally {
      await this.clock?.removeSharedMemory(this.#process.pid);
    }
  }

  #arguments(): string[] {
    const directory = this.directory;
    const own = ['--bind', HOST, '--dir', directory, '--unixsocket', this.#socketFile];
    const all = serverArguments(this.options, this.port, directory);
    // A file of settings comes first.
    return this.options.sentinel ? [...all, ...own] : [...own, ...all];
  }

  /**
   * Asked over a unix socket in the server's own directory, which redis-server opens after its port: on the port the
   * answer could come from a foreign server that has taken it first.
   */
  async #ready(launched: GuardedProcess): Promise<void> {
    const deadline = performance.now() + LIMIT_MS;
    for (;;) {
      try {
        return await ping(this.#ownSocket);
      } catch (error) {
        if (!launched.isRunning) throw await this.#startError();
        if (performance.now() > deadline) {
          throw new Error(`redis-server on port ${this.port} is not ready`, { cause: error });
        }
      }
      await sleep(3);
    }
  }

  async #startError(): Promise<Error> {
    const log = await readFile(this.#logFile, 'utf8').catch(() => '');
    if (/address already in use/i.test(log))
      return new PortTakenError(`port ${this.port} is taken`);
    return new Error(`redis-server ended at its start:\n${log.slice(-2000)}`);
  }

  async #empty(): Promise<void> {
    for (const name of await readdir(this.directory)) {
      await rm(join(this.directory, name), { recursive: true, force: true });
    }
  }

  #signal(signal: NodeJS.Signals): void {
    if (!this.#process?.signal(signal)) {
      throw new Error(`${signal}: the server on port ${this.port} is not running`);
    }
  }

  get #ownSocket(): RequestTarget {
    return { address: { path: this.#socketFile }, user: loginOf(this.options) };
  }

  get #logFile(): string {
    return join(this.directory, 'redis.log');
  }

  get #socketFile(): string {
    return join(this.directory, 'redis.sock');
  }
}

function clockLibraryFor(executable: RedisExecutable): Promise<ClockLibrary> {
  const known = clockLibraries.get(executable.command);
  const library = known ?? findClockLibrary(executable);
  clockLibraries.set(executable.command, library);
  return library;
}

class PortTakenError extends Error {
  override readonly name = 'PortTakenError';
}
