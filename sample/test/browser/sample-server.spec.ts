import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request, type IncomingHttpHeaders } from 'node:http';
import { connect, createServer, type AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../../../test/support/eventually.ts';
import { processState } from '../../../test/support/process-state.ts';
import { startChromium } from './support/chromium.ts';
import { ServedSample } from './support/served-sample.ts';

/** Users whom the page's server admits, and what it leaves behind. */

let sample: ServedSample;
let url: URL;

beforeAll(async () => {
  sample = ServedSample.start();
  url = new URL(await sample.url());
});

afterAll(async () => {
  await sample?.end();
});

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** fetch() does not let its caller set Host and Origin. */
async function send(
  method: string,
  path: string,
  headers: Record<string, string>,
): Promise<Answer> {
  const sent = request({ host: '127.0.0.1', port: url.port, method, path, headers });
  sent.end();
  const [response] = await once(sent, 'response');
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return { status: response.statusCode, headers: response.headers, text };
}

/** Ids of all processes below this one. */
function descendants(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  if (children === '') return [];
  return children.split(' ').flatMap((child) => [Number(child), ...descendants(Number(child))]);
}

/** A zombie has ended. */
function isRunning(pid: number): boolean {
  return !['Z', undefined].includes(processState(pid));
}

describe('the server of the page', () => {
  it('lets the page push its buttons', async () => {
    const headers = { host: url.host, origin: url.origin };
    expect((await send('POST', '/controls/fence/off', headers)).status).toBe(204);
    expect((await send('POST', '/controls/fence/on', headers)).status).toBe(204);
  });

  it.each<[string, () => Record<string, string>]>([
    ['another origin', () => ({ host: url.host, origin: 'http://evil.example' })],
    ['another port of this machine', () => ({ host: url.host, origin: 'http://localhost:1' })],
    ['a sandboxed frame', () => ({ host: url.host, origin: 'null' })],
    ['no origin', () => ({ host: url.host })],
    [
      'a name that was pointed at this machine',
      () => ({ host: `evil.example:${url.port}`, origin: `http://evil.example:${url.port}` }),
    ],
  ])('refuses buttons pushed by %s', async (_, headers) => {
    const paths = ['/controls/nodes/1/kill', '/controls/holder/freeze', '/controls/fence/off'];
    for (const path of paths) expect((await send('POST', path, headers())).status).toBe(403);
  });

  it('refuses requests under a name that was pointed at this machine', async () => {
    const headers = { host: `evil.example:${url.port}` };
    expect((await send('GET', '/', headers)).status).toBe(403);
    expect((await send('GET', '/events', headers)).status).toBe(403);
  });

  it('loads nothing from elsewhere, and serves no other files', async () => {
    const headers = { host: url.host };
    const page = await send('GET', '/', headers);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    expect(page.text).not.toMatch(/(src|href)="(https?:)?\/\//);
    for (const path of ['/..%2fREADME.md', '/%2e%2e/README.md', '/nothing.js']) {
      expect((await send('GET', path, headers)).status).toBe(404);
    }
  });

  it('answers malformed requests with the reason', async () => {
    const headers = { host: url.host, origin: url.origin };
    expect((await send('POST', '/controls/nodes/9/freeze', headers)).status).toBe(409);
    expect((await send('POST', '/controls/nodes/1/heal', headers)).text).toContain(
      "Server 1 is up: it can't heal.",
    );
    expect((await send('POST', '/controls/nodes/1/melt', headers)).status).toBe(400);
    expect((await send('POST', '/controls/nodes/one/kill', headers)).status).toBe(400);
    expect((await send('POST', '/controls/fence/maybe', headers)).status).toBe(400);
    expect((await send('GET', '/controls/fence/off', headers)).status).toBe(404);
  });

  it('listens on this machine only', async () => {
    const outside = Object.values(networkInterfaces())
      .flat()
      .find((found) => found && !found.internal && found.family === 'IPv4');
    // A machine without a network has no outside.
    if (!outside) return;
    const socket = connect({ host: outside.address, port: Number(url.port) });
    await expect(once(socket, 'connect')).rejects.toThrow('ECONNREFUSED');
  });

  it.each(['127.0.0.1', '::1'])('says so when the port is taken on %s', async (host) => {
    const occupant = createServer().listen(0, host);
    await once(occupant, 'listening');
    const { port } = occupant.address() as AddressInfo;
    try {
      const second = ServedSample.start([], { PORT: String(port) });
      expect(await second.exit()).toBe(1);
      expect(second.output).toContain(`Port ${port} is taken. Choose another one`);
      expect(second.output).not.toContain('starting');
    } finally {
      occupant.close();
    }
  });

  it('is missed by its page while it is stopped or away, and nothing shown goes on', async () => {
    let ending = ServedSample.start();
    const page = new URL(await ending.url());
    const browser = await startChromium();
    try {
      const tab = await browser.newPage();
      await tab.goto(page.href);
      const says = (text: string) =>
        tab.locator('#connection').filter({ hasText: text }).waitFor({ timeout: 60_000 });
      await says('Live');
      // The story for the first viewer is over: buttons that it holds back can be pushed.
      await tab.locator('.scene[data-phase="sold-twice"]').waitFor({ timeout: 60_000 });
      await tab.locator('#play-both[aria-disabled="false"]').waitFor({ timeout: 60_000 });
      process.kill(ending.pid, 'SIGSTOP');
      await says('No news');
      const lanes = await tab.locator('#lanes').innerHTML();
      await tab.waitForTimeout(500);
      expect(await tab.locator('#lanes').innerHTML()).toBe(lanes);
      process.kill(ending.pid, 'SIGCONT');
      await says('Live');
      await ending.end();
      await says('Not connected');
      await tab.locator('#play-both').click();
      await tab.locator('#answer').filter({ hasText: 'did not answer' }).waitFor();
      ending = ServedSample.start(['--port', page.port]);
      await says('Live');
      expect(await tab.locator('#answer').isHidden()).toBe(true);
    } finally {
      await browser.close();
      await ending.end();
    }
  });

  it('ends on Ctrl-C with a page that listens, and leaves no process behind', async () => {
    const ending = ServedSample.start();
    const page = new URL(await ending.url());
    const listener = request({
      host: '127.0.0.1',
      port: page.port,
      path: '/events',
      headers: { host: page.host },
    });
    listener.on('error', () => undefined).end();
    const [stream] = await once(listener, 'response');
    stream.on('error', () => undefined).resume();
    const started = descendants(ending.pid);
    // Five Redis servers, the database and three workers, at least.
    expect(started.length).toBeGreaterThanOrEqual(9);
    expect(await ending.end('SIGINT')).toBe(0);
    await eventually(() => expect(started.filter(isRunning)).toEqual([]));
  });
});
