import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { COMPILED, compiledModule } from '../../tools/lua/scripts.ts';

it('the scripts of servers in memory are those that are sent to Redis: `npm run compile:scripts` writes them', () => {
  expect(readFileSync(COMPILED, 'utf8')).toBe(compiledModule());
});
