// What tests have computed in the page.

/** Runs in the page: the numbers in a text, whatever their digits are grouped with. */
export function numbersOf({ textContent }: { readonly textContent: string | null }): number[] {
  const text = textContent ?? '';
  return [...text.matchAll(/\d[\d\u202f]*/gu)].map(([digits]) =>
    Number(digits.replace(/\D/gu, '')),
  );
}

/** Script for the page: tokens that reach over the edge of what they are drawn in. */
export const TOO_WIDE_TOKENS = `[...document.querySelectorAll('.drawing .token')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map(({ textContent }) => textContent)`;
