import { describe, expect, it } from '@jest/globals';
import { readArguments } from '../src/arguments.ts';

describe('the arguments of the sample', () => {
  it('ask for the story when there are none', () => {
    expect(readArguments([], { PORT: '80' })).toEqual({ mode: 'story' });
  });

  it.each<[string[], string | undefined, number]>([
    [['--serve'], undefined, 4600],
    [['--serve'], '', 4600],
    [['--serve'], '8080', 8080],
    [['--serve', '--port', '0'], '8080', 0],
    [['--serve', '--port=65535'], undefined, 65_535],
  ])('%j with PORT=%s ask for the page on port %i', (words, port, expected) => {
    expect(readArguments(words, { PORT: port })).toEqual({ mode: 'serve', port: expected });
  });

  it.each(['65536', '-1', '1e3', 'http', '80.5', ' '])('refuse the port %j', (port) => {
    expect(() => readArguments(['--serve', `--port=${port}`], {})).toThrow('from 0 to 65535');
    expect(() => readArguments(['--serve'], { PORT: port })).toThrow('from 0 to 65535');
  });

  it('refuse what they do not know', () => {
    expect(() => readArguments(['--server'], {})).toThrow("Unknown option '--server'");
    expect(() => readArguments(['--port', '80'], {})).toThrow('--port goes with --serve.');
  });
});
