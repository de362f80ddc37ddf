import { spawn } from 'node:child_process';

/**
 * A shell that sends SIGCONT to a process when this one lets go of it, whatever ended it: a stopped process can't notice that the
 * conductor was killed, and would stay stopped forever.
 * @returns lets go.
 */
export function guardStoppedProcess(pid: number): () => void {
  const guard = spawn('/bin/sh', ['-c', 'read -r _; kill -CONT "$0" 2>/dev/null', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Ctrl-C is meant for the conductor.
    detached: true,
  });
  guard.unref();
  guard.on('error', () => undefined);
  guard.stdin.on('error', () => undefined);
  return () => guard.stdin.end();
}
