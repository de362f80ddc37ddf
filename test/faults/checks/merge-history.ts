import type { CampaignEvent } from '../campaign-event.ts';
import { timeOf } from './run-facts.ts';

/**
 * The events of all files in one order: by time, and of each file in the order of the file. Events of the same moment stand
 * in the order of the files.
 */
export function mergeHistory(files: readonly (readonly CampaignEvent[])[]): CampaignEvent[] {
  const timed = files.flatMap((events) => {
    let latest = -Infinity;
    return events.map((event) => {
      latest = Math.max(latest, timeOf(event));
      return { event, at: latest };
    });
  });
  return timed.sort((a, b) => a.at - b.at).map(({ event }) => event);
}
