import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The state of a process in one letter, as `T` for stopped and `Z` for a zombie; undefined when there is no such process. */
export function processState(pid: number): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return status.charAt(status.lastIndexOf(')') + 2);
  } catch {
    return process.platform === 'linux' ? undefined : stateByCommand(pid);
  }
}

/** The systems without /proc. */
function stateByCommand(pid: number): string | undefined {
  try {
    return execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'latin1' })
      .trim()
      .charAt(0);
  } catch {
    return undefined;
  }
}
