import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { drawRefusedWrite } from '../picture/draw-refused-write.ts';

/** The moving picture of the README, which a script draws. */

describe('docs/refused-write.svg', () => {
  const drawn = drawRefusedWrite();

  it('is what the script draws', () => {
    expect(readFileSync('docs/refused-write.svg', 'utf8')).toBe(drawn);
  });

  it('moves only for those who like motion, and is whole for the others', () => {
    const [still, moving] = drawn.split('@media(prefers-reduced-motion:no-preference)');
    expect(moving).toContain('@keyframes');
    expect(still).not.toMatch(/animation|@keyframes/);
    expect(still!.match(/opacity:0/g)).toHaveLength(1);
    expect(still).toContain('.before-stored{opacity:0}');
  });

  it('tells in words what it shows, and loads nothing', () => {
    expect(drawn).toMatch(
      /<title id="title">.+<\/title>\n<desc id="description">.+refuses\.<\/desc>/,
    );
    expect(drawn).not.toMatch(/href|url\(|<script/);
  });
});
