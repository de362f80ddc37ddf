import { availableParallelism } from 'node:os';
import { findRedis } from '../../support/redis-servers/index.ts';
import { runCommand } from '../../support/redis-servers/run-command.ts';
import type { FinishedRun } from '../run/campaign.ts';
import { SERVERS, TTL_MS, WORKERS } from '../run/cast.ts';
import type { Schedule } from '../run/schedule.ts';
import { SCHEDULES } from '../schedules/index.ts';
import { resultsTable } from './results-table.ts';

const LONGEST_LINE = 130;

/** What the columns of the table mean. */
export const COLUMNS = `- **grants**, **locks lost**: over all runs of the schedule.
- **busy**: callers that were refused because others held the lock for as long as they could wait.
- **outage: none**, **guard**, **real**: callers that were refused because of an outage, by what servers really were. _None_: a
  quorum answered and might vote; it has to be 0. _Guard_: a quorum answered, but servers that had just been started, had
  restarted or had been emptied kept it from voting, as in the first second of every run. _Real_: no quorum answered in time.
- **stale writes: unfenced took**, **the fence refused**: writes of holders whose lock had ended, on the records without fence;
  accesses that the fenced records refused.
- **overlap ms**: the longest time in which two holders of one lock were both inside their validity.
- **idle ms**, **idle excused**: for how long a free lock was asked for while a quorum was healthy, less what stalls excuse; which
  share of all such time they excuse.
- **recovery ms**: from when a quorum might vote again to the next grant of a lock that was asked for.
- **violations**: broken promises.`;

/**
 * The page of the docs with the results of one campaign.
 *
 * @param commandArguments what the command was called with, so that anybody can call it again
 */
export async function resultsPage(
  finished: readonly FinishedRun[],
  commandArguments: readonly string[],
): Promise<string> {
  const commit = (await runCommand('git', ['rev-parse', '--short', 'HEAD'])).trim();
  const { version } = await findRedis({ own: true });
  const command = ['npm run faults --', ...commandArguments].join(' ');
  const date = new Date().toISOString().slice(0, 10);
  const seeds = [...new Set(finished.map(({ seed }) => seed))].join(', ');
  return `# Fault campaign on real Redis

<!-- Written by the command below. -->

${date}, commit \`${commit}\`, Redis ${version}, Node.js ${process.versions.node}, ${availableParallelism()} cores, seeds ${seeds}:

\`\`\`sh
${command}
\`\`\`

${SERVERS} servers and ${WORKERS} processes unless a schedule says otherwise, ttl ${TTL_MS} ms. What is checked:
[test/campaign/README.md](../test/campaign/README.md).

${COLUMNS}

${resultsTable(finished)}

## Schedules

${SCHEDULES.map(scheduleItem).join('\n')}
`;
}

/** What a schedule does, as the page lists it: in lines that fit, broken between words. */
export function scheduleItem({ name, what }: Schedule): string {
  const lines = ['-'];
  for (const word of `**${name}**: ${what}`.split(' ')) {
    const line = `${lines.at(-1)!} ${word}`;
    if (line.length > LONGEST_LINE) lines.push(`  ${word}`);
    else lines[lines.length - 1] = line;
  }
  return lines.join('\n');
}
