import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { processState } from '../process-state.ts';

/**
 * The shell becomes the command (exec keeps the process id) and leaves a guard behind, which waits on a pipe (3) held by
 * this process only. When the pipe closes, whatever ended its holder (SIGKILL included), the guard kills the command
 * and removes its directory. 'ended' tells the guard that the command is gone, so that a process id which was given
 * away again is not killed; 'released' that the directory is looked after elsewhere.
 */
const SCRIPT = `
directory=$1; shift
(
  running=yes
  while read -r word <&3; do
    case $word in
      ended) running=no ;;
      released) exit 0 ;;
    esac
  done
  if [ $running = yes ]; then kill -9 $$ 2>/dev/null; fi
  rm -rf "$directory" || { sleep 1; rm -rf "$directory"; }
  # Of a libfaketime that was killed with the command before anybody else could remove them.
  rm -f "/dev/shm/sem.faketime_sem_$$" "/dev/shm/faketime_shm_$$"
) &
exec 3<&-
exec "$@"
`;

/** A process that cannot outlive the one that started it. It does not keep its parent's event loop alive. */
export class GuardedProcess {
  readonly #child: ChildProcess;
  /** A pipe of its own, not standard input, which node closes as soon as the command has ended. */
  readonly #guard: Socket;
  readonly #exited: Promise<unknown>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', resolve)).then(() =>
      this.#tell('ended'),
    );
    this.#guard = child.stdio[3] as Socket;
    // The guard may be gone already when it is written to.
    this.#guard.on('error', () => undefined);
    this.#guard.unref();
    child.unref();
  }

  /**
   * @param command the executable and its arguments
   * @param directory its directory, removed by the guard
   * @param logFile takes standard output and error
   */
  static async start(
    command: readonly string[],
    directory: string,
    logFile: string,
    environment: NodeJS.ProcessEnv,
  ): Promise<GuardedProcess> {
    const log = openSync(logFile, 'w');
    try {
      // It is detached: Ctrl-C is meant for the parent, whose end the guard sees.
      const child = spawn('/bin/sh', ['-c', SCRIPT, 'guard', directory, ...command], {
        cwd: directory,
        env: environment,
        stdio: ['ignore', log, log, 'pipe'],
        detached: true,
      });
      const spawned = once(child, 'spawn');
      const started = new GuardedProcess(child);
      await spawned;
      return started;
    } finally {
      closeSync(log);
    }
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Sends a signal; true when the process was still there to get it. */
  signal(signal: NodeJS.Signals): boolean {
    return this.isRunning && this.#child.kill(signal);
  }

  /** Resolves when the process is gone, or with false after `timeoutMs`. */
  async exited(timeoutMs: number): Promise<boolean> {
    if (!this.isRunning) return true;
    this.#child.ref();
    const abort = new AbortController();
    try {
      const late = sleep(timeoutMs, false, { signal: abort.signal }).catch(() => false);
      return await Promise.race([this.#exited.then(() => true), late]);
    } finally {
      abort.abort();
      this.#child.unref();
    }
  }

  /** Resolves when SIGSTOP has taken effect, which the system does a moment after the call. */
  async stopped(timeoutMs = 60_000): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (this.isRunning && processState(this.pid) !== 'T') {
      if (performance.now() > deadline) throw new Error(`process ${this.pid} did not stop`);
      await sleep(1);
    }
  }

  /** The directory now belongs to somebody else. Only for a process that has ended. */
  releaseDirectory(): void {
    this.#tell('released');
    this.#guard.end();
  }

  #tell(word: 'ended' | 'released'): void {
    if (this.#guard.writable) this.#guard.write(`${word}\n`);
  }
}
