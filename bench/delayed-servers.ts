import { connect, createServer } from 'node:net';

// Proxies in front of servers, whose answers come later. Tells the parent its ports, and ends with it.

interface Target {
  readonly port: number;
  readonly delayMs: number;
}

process.on('disconnect', () => process.exit());
const targets = JSON.parse(process.argv[2]!) as readonly Target[];
process.send!(await Promise.all(targets.map(open)));

function open({ port, delayMs }: Target): Promise<number> {
  const server = createServer((client) => {
    client.setNoDelay(true);
    const upstream = connect({ port, host: '127.0.0.1', noDelay: true });
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => setTimeout(() => client.write(chunk), delayMs));
    client.on('error', () => undefined);
    client.on('close', () => upstream.destroy());
    upstream.on('error', () => undefined);
    // Answers that are still on their way go first.
    upstream.on('close', () => setTimeout(() => client.destroy(), delayMs + 10));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
  });
}
