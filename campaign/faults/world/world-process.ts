import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { parseFencingTokenHeader } from '../../../lib/fencing/fencing-token-header.ts';
import { HistoryFile } from '../../../test/history/history-file.ts';
import { historyNow } from '../../../test/history/lock-history.ts';
import { recordStalls } from '../../../test/history/record-stalls.ts';
import { answerQuestions, programSettings } from '../../../test/support/program.ts';
import { SeededRandom } from '../../../test/support/seeded-random.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { Link } from '../../../test/support/link.ts';
import type { NetworkCommand, WorldPorts, WorldSettings } from './network.ts';
import { Records } from './records.ts';
import type { ResourceReply, ResourceRequest } from './resource-client.ts';
import { watchServer } from './watch-server.ts';

// The world that workers meet outside of themselves: the links to the servers, which do what the parent says, and the resource, which
// goes on whatever happens. It ends with its parent.

process.once('disconnect', () => process.exit());
// Ctrl-C reaches the whole group; the parent decides when this process ends.
process.on('SIGINT', () => undefined);

const { seed, clients, targets, historyPath, isUnwatched } = programSettings<WorldSettings>();
const file = new HistoryFile<CampaignEvent>(historyPath);
const records = new Records();

function openLink(client: number, node: number): Promise<Link> {
  const random = new SeededRandom(seed + 1_000 * client + node);
  const worker = `worker-${client}`;
  return Link.open(targets[node]!, random, (cut) =>
    file.append({ type: 'cut', process: 'network', worker, node, ...cut }),
  );
}

const links = await Promise.all(
  Array.from({ length: clients }, (_, client) =>
    Promise.all(targets.map((_target, node) => openLink(client, node))),
  ),
);

/** Writes down when this process, or a server, does not run. */
function noteStalls(): void {
  recordStalls(file, 'network');
  if (isUnwatched) return;
  for (const [node, target] of targets.entries()) watchServer(target, `server-${node}`, file);
}

noteStalls();

function obey(command: NetworkCommand): unknown {
  const { clients: some, nodes } = command.selection ?? {};
  const selected = links.flatMap((ofClient, client) =>
    some?.includes(client) === false
      ? []
      : ofClient.filter((_link, node) => nodes?.includes(node) !== false),
  );
  switch (command.type) {
    case 'set':
      return selected.forEach((link) => link.setMode(command.mode));
    case 'forget':
      return selected.forEach((link) => link.forget(command.kinds));
    case 'reset':
      return selected.forEach((link) => link.resetConnections());
    case 'reset-after-request':
      return selected.forEach((link) => link.resetAfterRequest());
    case 'list':
      return selected.flatMap((link) => link.connections);
  }
}

/** Writes down each access at the moment of the access, in the order in which the resource did them. */
async function access(request: ResourceRequest, socket: Socket): Promise<void> {
  const { id, view, operation, key, fencingToken } = request;
  const token = parseFencingTokenHeader(fencingToken, [key]);
  if (!token) throw new Error(`not a fencing token: ${fencingToken}`);
  await records.access(request, token, ({ accepted, value }) => {
    const who = { holder: token.holder, token: Number(token.value) };
    const what = { view, operation, key, accepted, value };
    file.append({ type: 'access', process: 'resource', at: historyNow(), ...who, ...what });
    const reply: ResourceReply = { id, accepted, value };
    if (socket.writable) socket.write(`${JSON.stringify(reply)}\n`);
  });
}

const server = createServer({ noDelay: true }, (socket) => {
  // Workers are killed while they talk to us. Node.js passes errors of the socket on to the reader of lines.
  const lines = createInterface({ input: socket }).on('error', () => socket.destroy());
  socket.on('error', () => socket.destroy());
  lines.on('line', (line) => {
    access(JSON.parse(line) as ResourceRequest, socket).catch((error: unknown) => {
      setImmediate(() => {
        throw error;
      });
    });
  });
});
if (!process.connected) process.exit();
server.listen(0, '127.0.0.1', () => {
  const ports: WorldPorts = {
    links: links.map((ofClient) => ofClient.map(({ port }) => port)),
    resource: (server.address() as AddressInfo).port,
  };
  answerQuestions(ports, obey);
});
