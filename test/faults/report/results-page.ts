import { availableParallelism } from 'node:os';
import { findRedis } from '../../support/redis-servers/index.ts';
import { runCommand } from '../../support/redis-servers/run-command.ts';
import type { FinishedRun } from '../run/campaign.ts';
import { SERVERS, TTL_MS, WORKERS } from '../run/cast.ts';
import { SCHEDULES } from '../schedules/index.ts';
import { resultsTable } from './results-table.ts';

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
  const schedules = SCHEDULES.map(({ name, what }) => `- **${name}**: ${what}`).join('\n');
  return `# Fault campaign on real Redis

<!-- Written by the command below. -->

${date}, commit \`${commit}\`, Redis ${version}, Node.js ${process.versions.node}, ${availableParallelism()} cores, seeds ${seeds}:

\`\`\`
${command}
\`\`\`

${SERVERS} servers, ${WORKERS} processes, ttl ${TTL_MS} ms. What the columns mean and what is checked: [test/faults/README.md](../test/faults/README.md).

${resultsTable(finished)}

## Schedules

${schedules}
`;
}
