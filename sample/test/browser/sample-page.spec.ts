import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { eventually } from '../../../test/support/eventually.ts';
import { accessibilityFaults, makeInaccessible } from './support/accessibility.ts';
import { startChromium } from './support/chromium.ts';
import { ServedSample } from './support/served-sample.ts';

/** The page as people use it: every case pushes real buttons and waits for what the page then shows. */

/** Tokens that reach over the edge of what they are drawn in. */
const TOO_WIDE_TOKENS = `[...document.querySelectorAll('.token')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map(({ textContent }) => textContent)`;

let sample: ServedSample;
let browser: Browser;
let url: string;

beforeAll(async () => {
  browser = await startChromium();
  sample = new ServedSample();
  url = (await sample.url()).href;
});

afterAll(async () => {
  await browser?.close();
  await sample?.end();
});

/** Opens the page, waits until the stories that its first viewer sees are over, and closes it in the end. Errors of the page fail the test. */
async function onPage(
  use: (page: Page) => Promise<void>,
  options: BrowserContextOptions = {},
): Promise<void> {
  const context = await browser.newContext(options);
  try {
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    page.setDefaultTimeout(60_000);
    await page.goto(url);
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
    await storiesHaveEnded(page);
    await use(page);
    expect(errors).toEqual([]);
  } finally {
    await context.close();
  }
}

async function storiesHaveEnded(page: Page): Promise<void> {
  await page.locator('.scene[data-fenced="true"][data-phase="rejected"]').waitFor();
  await page.locator('.scene[data-fenced="false"][data-phase="sold-twice"]').waitFor();
  await page.locator('#play[aria-disabled="false"]').waitFor();
}

describe('the page of the sample', () => {
  it('shows the seats, the servers, and which worker holds what with which token', async () => {
    await onPage(async (page) => {
      expect(await page.locator('.seat').count()).toBe(24);
      expect(await page.locator('.server[data-state="up"]').count()).toBe(5);
      await page
        .locator('.worker')
        .filter({ hasText: /lock of [A-D]\d.*token …/s })
        .first()
        .waitFor();
      await page.locator('.seat[data-state="sold"]').first().waitFor();
    });
  });

  it('has played both stories for its first viewer, and plays them again on a click, step by step', async () => {
    await onPage(
      async (page) => {
        const [fenced, unfenced] = [true, false].map((is) =>
          page.locator(`.scene[data-fenced="${is}"]`),
        );
        await page.getByRole('button', { name: 'Play it again' }).click();
        for (const phase of ['begun', 'stopped', 'ran-out', 'seated'])
          await page.locator(`.scene[data-fenced="true"][data-phase="${phase}"]`).waitFor();
        await storiesHaveEnded(page);
        const verdict = (await fenced!.locator('.verdict').textContent())!;
        const [old, newer] = [...verdict.matchAll(/…([\d\u202f]+)/gu)].map(([, digits]) =>
          Number(digits!.replace(/\D/gu, '')),
        );
        expect(old).toBeLessThan(newer!);
        expect(verdict).toMatch(/is refunded/);
        expect(await fenced!.locator('[aria-current="step"]').textContent()).toContain('rejected');
        expect(await unfenced!.locator('.verdict').textContent()).toMatch(
          /[A-D]\d is sold twice: to dan and to cleo/,
        );
        for (const width of [320, 390, 768, 1024, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          expect([width, await page.evaluate(TOO_WIDE_TOKENS)]).toEqual([width, []]);
        }
      },
      { viewport: { width: 1400, height: 900 } },
    );
  });

  it('goes on selling while a server is dead, and by keyboard alone', async () => {
    await onPage(async (page) => {
      const focused = page.locator(':focus');
      await page.keyboard.press('Tab');
      expect(await focused.getAttribute('id')).toBe('play');
      expect(await page.evaluate('getComputedStyle(document.activeElement).outline')).toMatch(
        /solid 3px/,
      );
      await page.keyboard.press('Tab');
      expect(await focused.getAttribute('aria-label')).toBe('Kill: server 1');
      await page.keyboard.press('Enter');
      const first = page.locator('.server').first();
      await first.filter({ hasText: 'killed' }).waitFor();
      const newestId = async (text: string): Promise<number> =>
        Number(await page.locator('#log li', { hasText: text }).first().getAttribute('data-id'));
      const killed = await newestId('server 1 is killed');
      await eventually(async () => expect(await newestId('has the seat')).toBeGreaterThan(killed));
      expect(await focused.getAttribute('aria-label')).toBe('Start again: server 1');
      await page.keyboard.press('Enter');
      await first.filter({ hasText: 'up' }).waitFor();
    });
  });

  it.each([320, 390])('fits a screen of %i px without scrolling sideways', async (width) => {
    await onPage(
      async (page) => {
        const widths = await page.evaluate(
          '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
        );
        expect(widths).toEqual([width, width]);
        for (const button of await page.getByRole('button').all()) {
          const box = (await button.boundingBox())!;
          expect(Math.min(box.width, box.height)).toBeGreaterThanOrEqual(44);
        }
      },
      { viewport: { width, height: 800 }, isMobile: true, hasTouch: true },
    );
  });

  it.each(['dark', 'light'] as const)(
    'has no fault that axe finds in %s mode, on a phone and on a desktop',
    async (colorScheme) => {
      await onPage(
        async (page) => {
          const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
          expect(ground).toBe(colorScheme === 'dark' ? 'rgb(16, 20, 27)' : 'rgb(243, 245, 248)');
          for (const width of [390, 1440]) {
            await page.setViewportSize({ width, height: 844 });
            expect([width, await accessibilityFaults(page)]).toEqual([width, []]);
          }
          // The check itself must see what is wrong.
          await makeInaccessible(page);
          const faults = (await accessibilityFaults(page)).map((fault) => fault.split(':')[0]);
          expect(new Set(faults)).toEqual(new Set(['color-contrast', 'image-alt']));
        },
        { colorScheme, reducedMotion: 'reduce' },
      );
    },
  );
});
