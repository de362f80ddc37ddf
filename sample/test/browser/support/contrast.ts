import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

/** Text on the page whose contrast with what is behind it is too low, and how low it is. */
export interface PoorText {
  readonly text: string;
  readonly color: string;
  readonly ground: string;
  readonly ratio: number;
}

/**
 * Compares the computed colours of all visible text with the ground behind it, as WCAG 2 does.
 * @param least the smallest ratio that is good enough.
 */
export function poorTexts(page: Page, least: number): Promise<PoorText[]> {
  const source = readFileSync('sample/test/browser/support/find-poor-texts.js', 'utf8');
  return page.evaluate<PoorText[]>(`${source}; findPoorTexts(${least})`);
}
