import { join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';
import { foldersWith } from '../../../../test/support/redis-servers/find-programs.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Quiet, and without a sandbox, which containers mostly can't give. The profile is a new one, removed at the end. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/**
 * Starts the Chromium of this machine, headless: that of `CHROMIUM_PATH`, or the first of the usual names on the `PATH`.
 * @throws Error that says how to get one; a browser test that is skipped in silence tests nothing.
 */
export async function startChromium(): Promise<Browser> {
  const executablePath = process.env['CHROMIUM_PATH'] || (await find());
  return chromium.launch({ executablePath, headless: true, args: FLAGS, timeout: 60_000 });
}

async function find(): Promise<string> {
  for (const name of NAMES) {
    const [folder] = await foldersWith([name]);
    if (folder !== undefined) return join(folder, name);
  }
  throw new Error(
    'The browser tests need Chromium: apt-get install --no-install-recommends chromium, or set CHROMIUM_PATH.',
  );
}
