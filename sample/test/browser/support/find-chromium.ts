import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/**
 * Path of a Chromium on this machine: `CHROMIUM_PATH`, or the first of the usual names on the `PATH`.
 * @throws Error that lists the ways to get one; a browser test that is skipped in silence tests nothing.
 */
export function findChromium(environment: Readonly<Record<string, string | undefined>>): string {
  const named = environment['CHROMIUM_PATH'];
  if (named) {
    if (isExecutable(named)) return named;
    throw new Error(`CHROMIUM_PATH names '${named}', which can't be executed.`);
  }
  const folders = (environment['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  for (const name of NAMES) {
    const found = folders.map((folder) => join(folder, name)).find(isExecutable);
    if (found) return found;
  }
  throw new Error(
    [
      'The browser tests need Chromium, and there is none here. Ways to get one:',
      '  Debian:  apt-get install --no-install-recommends chromium',
      '  others:  install Chromium or Google Chrome, and have it on the PATH',
      '  or set CHROMIUM_PATH to an executable.',
    ].join('\n'),
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
