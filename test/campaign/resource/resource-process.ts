import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { parseFencingTokenHeader } from '../../../lib/fencing/fencing-token-header.ts';
import { HistoryFile } from '../../history/history-file.ts';
import { historyNow } from '../../history/lock-history.ts';
import { answerQuestions, programSettings } from '../../support/program.ts';
import type { CampaignEvent } from '../campaign-event.ts';
import { Records } from './records.ts';
import type { ResourceReply, ResourceRequest } from './resource-client.ts';

// The resource that holders write to, in a process of its own: it goes on whatever happens to workers and servers. It
// writes down each access at the moment of the access, and ends with its parent.

const { historyPath } = programSettings<{ historyPath: string }>();
const history = new HistoryFile<CampaignEvent>(historyPath);
const records = new Records();

async function answer(request: ResourceRequest, socket: Socket): Promise<void> {
  const { id, view, operation, key, fencingToken } = request;
  const token = parseFencingTokenHeader(fencingToken, [key]);
  if (!token) throw new Error(`not a fencing token: ${fencingToken}`);
  await records.access(request, token, ({ accepted, value }) => {
    const who = { holder: token.holder, token: Number(token.value) };
    const what = { view, operation, key, accepted, value };
    history.append({ type: 'access', process: 'resource', at: historyNow(), ...who, ...what });
    const reply: ResourceReply = { id, accepted, value };
    if (socket.writable) socket.write(`${JSON.stringify(reply)}\n`);
  });
}

const server = createServer({ noDelay: true }, (socket) => {
  // Workers are killed while they talk to us. Node.js passes errors of the socket on to the reader of lines.
  const lines = createInterface({ input: socket }).on('error', () => socket.destroy());
  socket.on('error', () => socket.destroy());
  lines.on('line', (line) => {
    answer(JSON.parse(line) as ResourceRequest, socket).catch((error: unknown) => {
      setImmediate(() => {
        throw error;
      });
    });
  });
});
server.listen(0, '127.0.0.1', () => {
  answerQuestions((server.address() as AddressInfo).port, () => undefined);
});
process.once('disconnect', () => process.exit(0));
