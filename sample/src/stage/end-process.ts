import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Time that a child that was asked to end may take before it is killed. */
const PATIENCE_MS = 10_000;

/**
 * Asks a child process to end, waits for it, and kills it when it does not. Resolves when it is gone.
 * @returns whether it ended by itself.
 */
export async function endProcess(child: ChildProcess, ask: () => void): Promise<boolean> {
  if (child.exitCode !== null || child.signalCode !== null) return child.signalCode === null;
  const gone = once(child, 'exit');
  const killer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  ask();
  await gone;
  clearTimeout(killer);
  return child.signalCode === null;
}
