import { describe, expect, it } from '@jest/globals';
import { readArguments } from '../src/arguments.ts';

describe('readArguments of the sample', () => {
  it('chooses the story when there are no arguments', () => {
    expect(readArguments([], { PORT: '80' })).toEqual({ mode: 'story' });
  });

  it.each<[string[], string | undefined, number]>([
    [['--serve'], undefined, 4600],
    [['--serve'], '', 4600],
    [['--serve'], '8080', 8080],
    [['--serve', '--port', '0'], '8080', 0],
    [['--serve', '--port=65535'], undefined, 65_535],
  ])('chooses the page for %j with PORT=%s, on port %i', (words, port, expected) => {
    expect(readArguments(words, { PORT: port })).toEqual({ mode: 'serve', port: expected });
  });

  it.each(['65536', '-1', '1e3', 'http', '80.5', ' '])('refuses the port %j', (port) => {
    expect(() => readArguments(['--serve', `--port=${port}`], {})).toThrow('from 0 to 65535');
    expect(() => readArguments(['--serve'], { PORT: port })).toThrow('from 0 to 65535');
  });

  it('chooses the usage for --help, whatever else there is', () => {
    expect(readArguments(['--serve', '--help'], {})).toEqual({ mode: 'help' });
  });

  it('refuses what it does not know', () => {
    expect(() => readArguments(['--server'], {})).toThrow("Unknown option '--server'");
    expect(() => readArguments(['--port', '80'], {})).toThrow('--port goes with --serve.');
  });
});
