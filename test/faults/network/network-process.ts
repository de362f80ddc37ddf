import { Chance } from '../../simulation/world/chance.ts';
import { addLinkCounts } from './link-counts.ts';
import type { LinkCounts } from './link-counts.ts';
import type {
  LinkSelection,
  NetworkCommand,
  NetworkMessage,
  NetworkSettings,
} from './network-command.ts';
import { TcpLink } from './tcp-link.ts';

// The process of the network: all links, which do what the parent says. It ends with its parent.

process.once('disconnect', () => process.exit());
// Ctrl-C reaches the whole group; the parent decides when the network ends.
process.on('SIGINT', () => undefined);

const settings = JSON.parse(process.argv[2]!) as NetworkSettings;
const chance = new Chance(settings.seed);
const links = await Promise.all(
  Array.from({ length: settings.clients }, (_, client) =>
    Promise.all(
      settings.targets.map((target, node) =>
        TcpLink.open(target, chance.branch(`link ${client}/${node}`)),
      ),
    ),
  ),
);

function chosen({ clients, nodes }: LinkSelection): TcpLink[] {
  return pick(links, clients).flatMap((ofClient) => pick(ofClient, nodes));
}

function pick<Item>(items: readonly Item[], indexes: readonly number[] | undefined): Item[] {
  if (indexes === undefined) return [...items];
  return indexes.map((index) => {
    const item = items[index];
    if (item === undefined) throw new RangeError(`there is no number ${index}`);
    return item;
  });
}

async function obey(command: NetworkCommand): Promise<LinkCounts | undefined> {
  const selected = chosen(command.selection);
  switch (command.type) {
    case 'set':
      await Promise.all(selected.map((link) => link.setMode(command.mode)));
      return undefined;
    case 'reset-connections':
      for (const link of selected) link.resetConnections();
      return undefined;
    case 'reset-after-request':
      for (const link of selected) link.resetAfterRequest();
      return undefined;
    case 'count':
      return addLinkCounts(selected.map(({ counts }) => counts));
  }
}

function tell(message: NetworkMessage): void {
  // The parent may be gone; then so is this process in a moment.
  process.send?.(message, undefined, undefined, () => undefined);
}

process.on('message', (command: NetworkCommand) => {
  const { id } = command;
  obey(command).then(
    (result) => tell({ type: 'done', id, result }),
    (error: unknown) => tell({ type: 'failed', id, message: String(error) }),
  );
});
if (!process.connected) process.exit();
tell({ type: 'listening', ports: links.map((ofClient) => ofClient.map(({ port }) => port)) });
