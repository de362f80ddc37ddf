import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { eventually } from '../../../test/support/eventually.ts';
import { accessibilityFaults, makeInaccessible } from './support/accessibility.ts';
import { startChromium } from './support/chromium.ts';
import { numbersOf, TOO_WIDE_TOKENS } from './support/in-page.ts';
import { ServedSample } from './support/served-sample.ts';

/** The page as people use it: every case pushes real buttons and waits for what the page then shows. */

/** A bound that only a hang crosses. */
const PATIENCE = { timeout: 60_000 };

let sample: ServedSample;
let browser: Browser;
let url: string;

beforeAll(async () => {
  browser = await startChromium();
  sample = ServedSample.start();
  url = await sample.url();
});

afterAll(async () => {
  await browser?.close();
  await sample?.end();
});

/** Opens the page, waits until it lives and the story that its first viewer sees is over, and closes it in the end. Errors of the page fail the test. */
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
    page.setDefaultTimeout(PATIENCE.timeout);
    await page.goto(url);
    await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
    await page.locator('.scene[data-phase="sold-twice"]').waitFor();
    await untilFreezeIsOver(page);
    await use(page);
    expect(errors).toEqual([]);
  } finally {
    await context.close();
  }
}

async function booked(page: Page): Promise<number> {
  return Number(await page.locator('#count-booked').textContent());
}

async function expectMoreBookings(page: Page, atLeast: number): Promise<void> {
  const before = await booked(page);
  await eventually(
    async () => expect(await booked(page)).toBeGreaterThanOrEqual(before + atLeast),
    { timeoutMs: PATIENCE.timeout, everyMs: 100 },
  );
}

async function freezeHolder(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Freeze a holder' }).click();
}

/** Waits until the last freeze is over, so that the next test can begin one. */
async function untilFreezeIsOver(page: Page): Promise<void> {
  await page.locator('#freeze-holder[aria-disabled="false"]').waitFor();
}

describe('the page of the sample', () => {
  it('shows five nodes, the seats, and which worker holds what with which token for how long', async () => {
    await onPage(async (page) => {
      await expectMoreBookings(page, 1);
      expect(await page.locator('.node').count()).toBe(5);
      expect(await page.locator('.seat').count()).toBe(24);
      const row = page
        .locator('#holders tr')
        .filter({ hasText: /\d{16}.*[●○]{5} [345]\/5.*\d\.\d s/s });
      await row.first().waitFor();
      await page.locator('.seat[data-state="sold"]').first().waitFor();
      for (const cell of await page.locator('#holders td:visible').allTextContents()) {
        expect(cell).not.toMatch(/^[–\s]*$/u);
      }
      expect(await page.locator('#holders .shared').first().textContent()).toMatch(/^\d{5,7}$/);
    });
  });

  it('plays both stories once for its first viewer, and says what failed in them', async () => {
    // Nobody has pressed anything yet, and the second page does not play them again.
    await onPage(async (page) => {
      expect(await page.locator('#story').textContent()).toMatch(/rejected.*sold twice/);
      for (const id of ['refusal-count', 'double-count', 'count-write-rejected', 'count-lock-lost'])
        expect([id, await page.locator(`#${id}`).textContent()]).toEqual([id, '1']);
      expect(await page.locator('#counts').textContent()).not.toContain('failed');
    });
  });

  it('says what package this is and what fencing means, and links to its README', async () => {
    await onPage(async (page) => {
      expect(await page.title()).toContain('nestjs-fenced-lock');
      expect(await page.locator('h1').textContent()).toContain('nestjs-fenced-lock');
      // Header before anything is pressed: what is going to be shown, and what to look for.
      const header = (await page.locator('header p').first().textContent())!.replace(/\s+/g, ' ');
      expect(header).toContain('Locks for NestJS on a majority of five Redis servers');
      expect(header).toMatch(
        /Play both stops two holders .* rejected with the fence, .* sold twice/,
      );
      await page.getByRole('link', { name: 'About this package' }).click();
      await page.getByText('# nestjs-fenced-lock').waitFor();
    });
  });

  it('labels bars only with what fits into them, and explains their colours to everybody', async () => {
    await onPage(async (page) => {
      await page.locator('#lanes rect[data-tone="booked"] + text').nth(2).waitFor();
      expect(await page.locator('#lanes [textLength]').count()).toBe(0);
      const overflows = await page.locator('#lanes').evaluate((svg) => {
        const bars = [...svg.querySelectorAll('rect')].map((bar) => bar.getBoundingClientRect());
        return [...svg.querySelectorAll('rect + text')].map((text) => {
          const { left, right, top } = text.getBoundingClientRect();
          return !bars.some((bar) => bar.left <= left && bar.right >= right && bar.top <= top + 8);
        });
      });
      expect(overflows.length).toBeGreaterThan(0);
      expect(overflows).not.toContain(true);
      const legend = page.getByRole('list', { name: 'Colours of the bars' });
      expect(await legend.getByRole('listitem').allTextContents()).toContain('came too late');
    });
  });

  it('goes on booking while a node is frozen, and while another one is killed', async () => {
    await onPage(async (page) => {
      const [second, third] = [page.locator('.node').nth(1), page.locator('.node').nth(2)];
      await page.getByRole('button', { name: 'Freeze server 2' }).click();
      await second.filter({ hasText: 'frozen' }).waitFor();
      await page.getByRole('button', { name: 'Kill server 3' }).click();
      await third.filter({ hasText: 'killed' }).waitFor();
      await expectMoreBookings(page, 3);
      await page.locator('#holders').getByText('3/5').first().waitFor();

      await page.getByRole('button', { name: 'Heal server 2' }).click();
      await page.getByRole('button', { name: 'Heal server 3' }).click();
      await second.filter({ hasText: 'up' }).waitFor();
      // Node may have forgotten a lock that is still held.
      await third.filter({ hasText: /gives locks in \d\.\d s/ }).waitFor();
      await third.filter({ hasText: 'up' }).waitFor();
      await page.locator('#holders').getByText('5/5').first().waitFor();
      expect(await page.locator('.node[data-state="up"]').count()).toBe(5);
    });
  });

  it('stops booking without a majority, says so, and goes on when nodes are back', async () => {
    await onPage(async (page) => {
      const doubles = await page.locator('#double-count').textContent();
      for (const number of [1, 2, 3]) {
        await page.getByRole('button', { name: `Freeze server ${number}` }).click();
        await page
          .locator('.node')
          .nth(number - 1)
          .filter({ hasText: 'frozen' })
          .waitFor();
      }
      await page.locator('#quorum').filter({ hasText: '2 of 5 servers are left' }).waitFor();
      await page.locator('#timeline').getByText('QUORUM_UNAVAILABLE').first().waitFor();
      for (const number of [1, 2, 3]) {
        await page.getByRole('button', { name: `Heal server ${number}` }).click();
      }
      await page.locator('#quorum').waitFor({ state: 'hidden' });
      await expectMoreBookings(page, 2);
      expect(await page.locator('#double-count').textContent()).toBe(doubles);
    });
  });

  it('shows the refused write of a holder that was frozen, and its refund', async () => {
    await onPage(async (page) => {
      const refusals = page.locator('#refusals li');
      const before = Number(await page.locator('#refusal-count').textContent());
      const doubles = await page.locator('#double-count').textContent();
      await freezeHolder(page);
      await page.locator('#holders').getByText('stopped').waitFor();
      await page.locator('#holders').getByText('ran out').waitFor();
      await page
        .locator('#refusal-count')
        .getByText(String(before + 1))
        .waitFor();
      const newest = refusals.first();
      await newest.filter({ hasText: 'is refunded' }).waitFor();
      const [, token, newer] = /token (\d+)\) was rejected, the database had seen (\d+)/.exec(
        (await newest.textContent()) ?? '',
      )!;
      expect(BigInt(newer!)).toBeGreaterThan(BigInt(token!));
      await untilFreezeIsOver(page);
      expect(await page.locator('#double-count').textContent()).toBe(doubles);
    });
  });

  it('draws the database that refuses the lower number, and answers the click step by step', async () => {
    await onPage(async (page) => {
      const scene = page.locator('.scene[data-fenced="true"]');
      await freezeHolder(page);
      for (const number of [1, 2, 3, 4]) {
        await page
          .locator('#story')
          .filter({ hasText: `${number} of 5` })
          .waitFor();
      }
      await page.locator('#story').filter({ hasText: 'the late write is rejected' }).waitFor();
      await scene.locator('.verdict').filter({ hasText: 'is refunded' }).waitFor();
      const [old, newer] = await scene.locator('.verdict b').evaluate(numbersOf);
      expect(old).toBeLessThan(newer!);
      expect(await scene.locator('.database .token').evaluate(numbersOf)).toEqual([newer]);
      expect(await scene.locator('.holder .token').evaluate(numbersOf)).toEqual([old]);
      expect(await scene.locator('.successor .token').evaluate(numbersOf)).toEqual([newer]);
      expect(await scene.locator('.verdict b').textContent()).toMatch(
        /^…[\d\u202f]+ < …[\d\u202f]+ ✗$/u,
      );
      expect(await scene.locator('.steps [aria-current="step"]').textContent()).toBe('rejected');
      await untilFreezeIsOver(page);
    });
  });

  it('plays the story with the fence and without it, side by side', async () => {
    await onPage(
      async (page) => {
        const doubles = Number(await page.locator('#double-count').textContent());
        const refusals = Number(await page.locator('#refusal-count').textContent());
        await page.getByRole('button', { name: /^Play both/ }).click();
        await page.locator('.scene[data-fenced="true"][data-phase="stopped"]').waitFor();
        await page.locator('.scene[data-fenced="true"][data-phase="refused"]').waitFor();
        const without = page.locator('.scene[data-fenced="false"][data-phase="sold-twice"]');
        await without.waitFor();
        expect(await without.locator('.verdict').textContent()).toMatch(
          /[A-D]\d is sold twice: to \w+ and to \w+/,
        );
        expect(Number(await page.locator('#double-count').textContent())).toBe(doubles + 1);
        expect(Number(await page.locator('#refusal-count').textContent())).toBe(refusals + 1);
        // Scrolling is not needed to see it.
        for (const scene of await page.locator('.scene').all()) {
          const { y, height } = (await scene.boundingBox())!;
          expect(y).toBeGreaterThanOrEqual(0);
          expect(y + height).toBeLessThanOrEqual(900);
        }
        for (const width of [320, 360, 390, 560, 768, 900, 1024, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          const faults = await accessibilityFaults(page);
          expect([width, await page.evaluate(TOO_WIDE_TOKENS), faults]).toEqual([width, [], []]);
        }
        await untilFreezeIsOver(page);
      },
      { viewport: { width: 1400, height: 900 } },
    );
  });

  it('says at the button why a story can not be played', async () => {
    await onPage(async (page) => {
      await freezeHolder(page);
      await page.locator('.scene[data-fenced="true"][data-phase="stopped"]').waitFor();
      const second = await page.request.post(`${url}controls/holder/freeze-both`, {
        headers: { origin: new URL(url).origin },
      });
      expect(second.status()).toBe(409);
      expect(await second.text()).toContain('A holder is being frozen already.');
      await untilFreezeIsOver(page);
    });
  });

  it('freezes a holder at once when the hall is sold out: the next evening opens', async () => {
    await onPage(async (page) => {
      await page
        .locator('#seats:not(:has(.seat:not([data-state="sold"]):not([data-state="double"])))')
        .waitFor();
      const evening = await page.locator('#evening').textContent();
      await freezeHolder(page);
      await page.locator('.scene[data-fenced="true"][data-phase="stopped"]').waitFor();
      expect(await page.locator('#evening').textContent()).not.toBe(evening);
      await page.locator('.scene[data-fenced="true"][data-phase="refused"]').waitFor();
      await untilFreezeIsOver(page);
      expect(await page.locator('#timeline').getByText('no holder was frozen').count()).toBe(0);
    });
  });

  it('shows the double booking when fencing is off', async () => {
    await onPage(async (page) => {
      const before = Number(await page.locator('#double-count').textContent());
      const refusals = await page.locator('#refusal-count').textContent();
      const fence = page.getByRole('switch', { name: 'Fencing' });
      try {
        await fence.click();
        await page.locator('#fence[aria-checked="false"]').waitFor();
        await freezeHolder(page);
        await page
          .locator('#double-count')
          .getByText(String(before + 1))
          .waitFor();
        const text = await page.locator('#doubles li').first().textContent();
        expect(text).toMatch(/^[A-D]\d belongs to \w+ and to \w+: both have paid/);
        await untilFreezeIsOver(page);
        expect(await page.locator('#refusal-count').textContent()).toBe(refusals);
      } finally {
        await fence.click();
        await page.locator('#fence[aria-checked="true"]').waitFor();
      }
    });
  });

  it('can be used by keyboard alone, with a focus that is seen and stays', async () => {
    await onPage(async (page) => {
      const focused = page.locator(':focus');
      for (const id of ['package', 'play-both', 'freeze-holder']) {
        await page.keyboard.press('Tab');
        expect(await focused.getAttribute('id')).toBe(id);
      }
      const outline = await page.evaluate('getComputedStyle(document.activeElement).outline');
      expect(outline).toMatch(/solid 3px/);
      const before = Number(await page.locator('#refusal-count').textContent());
      await page.keyboard.press('Enter');
      await page
        .locator('#refusal-count')
        .getByText(String(before + 1))
        .waitFor();
      await untilFreezeIsOver(page);
      expect(await focused.getAttribute('id')).toBe('freeze-holder');

      await page.keyboard.press('Tab');
      await page.keyboard.press('Space');
      await page.locator('#fence[aria-checked="false"]').waitFor();
      await page.keyboard.press('Space');
      await page.locator('#fence[aria-checked="true"]').waitFor();

      await page.keyboard.press('Tab');
      expect(await focused.getAttribute('aria-label')).toBe('Freeze server 1');
      await page.keyboard.press('Enter');
      await page.locator('.node').first().filter({ hasText: 'frozen' }).waitFor();
      expect(await focused.getAttribute('aria-label')).toBe('Freeze server 1');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.locator('.node').first().filter({ hasText: 'up' }).waitFor();
    });
  });

  it('announces refusals and double bookings to screen readers', async () => {
    await onPage(async (page) => {
      expect(await page.locator('[aria-live="polite"] #refusals').count()).toBe(1);
      expect(await page.locator('[aria-live="assertive"] #doubles').count()).toBe(1);
    });
  });

  it.each([
    [320, 2850],
    [390, 2500],
  ])('fits a screen of %i px without scrolling sideways', async (width, longest) => {
    await onPage(
      async (page) => {
        await expectMoreBookings(page, 1);
        const widths = await page.evaluate(
          '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
        );
        expect(widths).toEqual([width, width]);
        // Words are not broken into a column of letters.
        for (const row of await page.locator('#holders tr').all()) {
          expect((await row.boundingBox())!.height).toBeLessThan(160);
        }
        for (const button of await page.getByRole('button').all()) {
          const box = (await button.boundingBox())!;
          expect(Math.min(box.width, box.height)).toBeGreaterThanOrEqual(44);
        }
        // 2,672 px once, without the two stories.
        const height = await page.evaluate<number>('document.documentElement.scrollHeight');
        expect(height).toBeLessThan(longest);
      },
      { viewport: { width, height: 800 }, isMobile: true, hasTouch: true },
    );
  });

  it.each(['dark', 'light'] as const)(
    'has no fault that axe finds in %s mode, on a phone and on a desktop',
    async (colorScheme) => {
      await onPage(
        async (page) => {
          await expectMoreBookings(page, 1);
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
