import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../../../test/support/eventually.ts';
import { processState } from '../../../test/support/process-state.ts';
import { startChromium } from './support/chromium.ts';
import { ServedSample } from './support/served-sample.ts';

/** Whom the server of the page admits, and what it leaves behind. */

let sample: ServedSample;
let url: URL;

beforeAll(async () => {
  sample = new ServedSample();
  url = await sample.url();
});

afterAll(async () => {
  await sample?.end();
});

/** The status of the answer. fetch() does not let its caller set Host and Origin. */
async function send(method: string, path: string, headers: Record<string, string>) {
  const sent = request({ host: '127.0.0.1', port: url.port, method, path, headers });
  sent.end();
  const [response] = await once(sent, 'response');
  response.resume();
  return response.statusCode as number;
}

/** The ids of all processes below this one. */
function descendants(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  if (children === '') return [];
  return children.split(' ').flatMap((child) => [Number(child), ...descendants(Number(child))]);
}

describe('the server of the page', () => {
  it.each<[string, () => Record<string, string>]>([
    ['another origin', () => ({ host: url.host, origin: 'http://evil.example' })],
    ['another port of this machine', () => ({ host: url.host, origin: 'http://127.0.0.1:1' })],
    ['a sandboxed frame', () => ({ host: url.host, origin: 'null' })],
    ['no origin', () => ({ host: url.host })],
    [
      'a name that was pointed at this machine',
      () => ({ host: `evil.example:${url.port}`, origin: `http://evil.example:${url.port}` }),
    ],
  ])('refuses buttons pushed by %s', async (_, headers) => {
    for (const path of ['/servers/1/kill', '/play'])
      expect(await send('POST', path, headers())).toBe(403);
  });

  it('answers only what belongs to the page, and only under the names of this machine', async () => {
    const own = { host: url.host, origin: url.origin };
    expect(await send('GET', '/', { host: `localhost:${url.port}` })).toBe(200);
    for (const path of ['/', '/events'])
      expect(await send('GET', path, { host: `evil.example:${url.port}` })).toBe(403);
    for (const path of ['/..%2fREADME.md', '/../README.md', '/nothing.js', '/play'])
      expect(await send('GET', path, own)).toBe(404);
    expect(await send('POST', '/servers/1/start', own)).toBe(409);
    for (const path of ['/servers/9/kill', '/servers/1/melt', '/nothing'])
      expect(await send('POST', path, own)).toBe(404);
    const policy = (await fetch(url)).headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'");
  });

  it('says so when the port is taken, before it starts anything', async () => {
    const occupant = createServer().listen(0, '127.0.0.1');
    await once(occupant, 'listening');
    const { port } = occupant.address() as AddressInfo;
    try {
      const second = new ServedSample(port);
      expect(await second.exit).toBe(1);
      expect(second.output).toContain(`Port ${port} is taken. Choose another one`);
      expect(second.output).not.toContain('starting');
    } finally {
      occupant.close();
    }
  });

  it('is missed by its page while it is stopped or away, and leaves no process behind', async () => {
    const first = new ServedSample();
    const page = await first.url();
    let second: ServedSample | undefined;
    const browser = await startChromium();
    try {
      const tab = await browser.newPage();
      await tab.goto(page.href);
      const says = (text: string) =>
        tab.locator('#connection', { hasText: text }).waitFor({ timeout: 60_000 });
      await tab.locator('.server').nth(4).waitFor();
      process.kill(first.pid, 'SIGSTOP');
      await says('No news');
      process.kill(first.pid, 'SIGCONT');
      await says('Live');
      const started = descendants(first.pid);
      // Five Redis servers, the database and three workers, at least.
      expect(started.length).toBeGreaterThanOrEqual(9);
      expect(await first.end()).toBe(0);
      // A zombie has ended.
      const hasEnded = (pid: number): boolean => ['Z', undefined].includes(processState(pid));
      await eventually(() => expect(started.every(hasEnded)).toBe(true));
      await says('Not connected');
      await tab.getByRole('button', { name: 'Kill: server 1' }).click();
      await tab.locator('#note', { hasText: 'did not answer' }).waitFor();
      second = new ServedSample(Number(page.port));
      await says('Live');
      expect(await tab.locator('#note').isHidden()).toBe(true);
    } finally {
      await browser.close();
      await first.end();
      await second?.end();
    }
  });
});
