import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { drawRefusedWrite } from '../picture/draw-refused-write.ts';

/** The picture of the README, which a script draws. */

describe('docs/refused-write.svg', () => {
  const drawn = drawRefusedWrite();

  it('is what the script draws', () => {
    expect(readFileSync('docs/refused-write.svg', 'utf8')).toBe(drawn);
  });

  it('is whole when it loads: nothing moves, and nothing appears later', () => {
    expect(drawn).not.toMatch(/animation|@keyframes|opacity/);
  });

  it('tells in words what it shows, and loads nothing', () => {
    expect(drawn).toMatch(
      /<title id="title">.+<\/title>\n<desc id="description">.+rejects the write\.<\/desc>/,
    );
    expect(drawn).not.toMatch(/href|url\(|<script/);
  });
});
