import { Chance } from '../../simulation/world/chance.ts';
import { HistoryFile } from '../../history/history-file.ts';
import { recordStalls } from '../../history/record-stalls.ts';
import { answerQuestions, programSettings } from '../../support/program.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { addLinkCounts } from './link-counts.ts';
import type { LinkSelection, NetworkCommand, NetworkSettings } from './network-command.ts';
import { TcpLink } from './tcp-link.ts';
import { watchServer } from './watch-server.ts';

// The process of the network: all links, which do what the parent says. It ends with its parent.

process.once('disconnect', () => process.exit());
// Ctrl-C reaches the whole group; the parent decides when the network ends.
process.on('SIGINT', () => undefined);

const { seed, clients, targets, historyPath } = programSettings<NetworkSettings>();
const file = historyPath === undefined ? undefined : new HistoryFile<CampaignEvent>(historyPath);
const chance = new Chance(seed);
const links = await Promise.all(
  Array.from({ length: clients }, (_, client) =>
    Promise.all(
      targets.map((target, node) =>
        TcpLink.open(target, chance.branch(`link ${client}/${node}`), (cut) =>
          file?.append({
            type: 'cut',
            process: 'network',
            worker: `worker-${client}`,
            node,
            ...cut,
          }),
        ),
      ),
    ),
  ),
);
if (file) {
  recordStalls(file, 'network');
  for (const [node, target] of targets.entries()) watchServer(target, `server-${node}`, file);
}

function chosen(selection: LinkSelection): TcpLink[] {
  return pick(links, selection.clients).flatMap((ofClient) => pick(ofClient, selection.nodes));
}

function pick<Item>(items: readonly Item[], indexes: readonly number[] | undefined): Item[] {
  if (indexes === undefined) return [...items];
  return indexes.map((index) => {
    const item = items[index];
    if (item === undefined) throw new RangeError(`there is no number ${index}`);
    return item;
  });
}

async function obey(command: NetworkCommand): Promise<unknown> {
  const selected = chosen(command.selection);
  switch (command.type) {
    case 'set':
      return void (await Promise.all(selected.map((link) => link.setMode(command.mode))));
    case 'forget':
      return selected.forEach((link) => link.forgetConnections(command.kinds));
    case 'reset-connections':
      return selected.forEach((link) => link.resetConnections());
    case 'reset-after-request':
      return selected.forEach((link) => link.resetAfterRequest());
    case 'count':
      return addLinkCounts(selected.map(({ counts }) => counts));
    case 'list':
      return selected.flatMap((link) => link.connections);
  }
}

if (!process.connected) process.exit();
answerQuestions(
  links.map((ofClient) => ofClient.map(({ port }) => port)),
  obey,
);
