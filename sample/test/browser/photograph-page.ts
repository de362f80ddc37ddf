// Makes docs/sample-page.png: the running page in a real Chromium, when the stories that it plays by itself have ended.
// After a change of the page: `npm run -s build:sample && node --import ./test/support/typescript-loader.mjs sample/test/browser/photograph-page.ts`.
import { startChromium } from './support/chromium.ts';
import { ServedSample } from './support/served-sample.ts';

const browser = await startChromium();
const sample = new ServedSample();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto((await sample.url()).href);
  for (const phase of ['rejected', 'sold-twice'])
    await page.locator(`.scene[data-phase="${phase}"]`).waitFor({ timeout: 60_000 });
  // Bookings that fill a part of the hall.
  await page.locator('.seat[data-state="sold"]').nth(9).waitFor({ timeout: 60_000 });
  await page.screenshot({ path: 'docs/sample-page.png' });
} finally {
  await browser.close();
  await sample.end();
}
