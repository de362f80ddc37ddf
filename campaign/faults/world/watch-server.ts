import { connect } from 'node:net';
import { historyNow } from '../../../test/history/lock-history.ts';
import type { HistoryFile } from '../../../test/history/history-file.ts';
import { STALL_MS, TICK_MS } from '../../../test/history/record-stalls.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import type { LinkTarget } from '../../../test/support/link.ts';

const RECONNECT_MS = 50;

/**
 * Asks a server all the time, past all links, and writes down when it let us wait, under the name of `process`. Whatever it
 * answers shows that it runs; one that cannot be reached does not stall, it is down.
 */
export function watchServer(
  target: LinkTarget,
  process: string,
  file: HistoryFile<CampaignEvent>,
): void {
  const socket = connect({ ...target, noDelay: true });
  let askedAt = 0;
  const ask = (): void => {
    askedAt = historyNow();
    if (socket.writable) socket.write('PING\r\n');
  };
  socket.once('connect', ask);
  socket.on('data', () => {
    const to = historyNow();
    if (to - askedAt > STALL_MS) file.append({ type: 'stalled', process, from: askedAt, to });
    setTimeout(ask, 2 * TICK_MS).unref();
  });
  socket.on('error', () => undefined);
  socket.once('close', () => {
    setTimeout(() => watchServer(target, process, file), RECONNECT_MS).unref();
  });
}
