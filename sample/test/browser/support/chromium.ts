import { chromium, type Browser } from 'playwright-core';
import { findChromium } from './find-chromium.ts';

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

/** Starts the Chromium of this machine, headless. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: findChromium(process.env),
    headless: true,
    args: FLAGS,
    timeout: 60_000,
  });
}
