import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from 'playwright-core';

const axe = createRequire(join(process.cwd(), 'package.json')).resolve('axe-core/axe.min.js');

/** Faults that axe finds on the page, by all of its rules: the rule, and the elements that break it. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  // Text of the script and not its address, which the page's policy would refuse.
  await page.evaluate(readFileSync(axe, 'utf8'));
  return page.evaluate<string[]>(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + ': ' + target.join(' '))))`);
}

/** Adds a text with too little contrast, and a picture without an alternative text. */
export async function makeInaccessible(page: Page): Promise<void> {
  // HTML won't do: the page's policy refuses styles that stand in it.
  await page.evaluate(`(() => {
    const poor = document.createElement('p');
    poor.textContent = 'poor';
    poor.style.color = '#777';
    poor.style.background = '#888';
    document.querySelector('main').append(poor, document.createElement('img'));
  })()`);
}
