// Makes docs/sample-page.png: the page of the running sample in a real Chromium, when the stories that it plays by itself have come to their end.
// Run it after a change of the page: `npm run -s build:sample && node --import ./test/support/typescript-loader.mjs sample/picture/photograph-page.ts`.
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startChromium } from '../test/browser/support/chromium.ts';
import { ServedSample } from '../test/browser/support/served-sample.ts';

/** Bookings that fill a part of the seats and of the lanes. */
const BOOKINGS = 12;

const browser = await startChromium();
const sample = ServedSample.start();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(await sample.url());
  for (const verdict of ['is refunded', 'is sold twice'])
    await page.locator('.verdict', { hasText: verdict }).waitFor({ timeout: 60_000 });
  const booked = page.locator('#count-booked');
  while (Number(await booked.textContent()) < BOOKINGS) await setTimeout(100);
  const path = fileURLToPath(new URL('../../docs/sample-page.png', import.meta.url));
  // Moving parts are shown at the end of their motion.
  await page.screenshot({ path, animations: 'disabled' });
} finally {
  await browser.close();
  await sample.end();
}
