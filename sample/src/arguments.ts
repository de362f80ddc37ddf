import { parseArgs } from 'node:util';

const DEFAULT_PORT = 4600;

/** What the command line and the environment ask for. */
export type Arguments =
  | { readonly mode: 'story' }
  | {
      readonly mode: 'serve';
      /** 0 takes any free one. */
      readonly port: number;
    };

/**
 * Reads `--serve` and `--port`; the environment's `PORT` counts where the option is missing.
 * @throws Error that says what is wrong with them.
 */
export function readArguments(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Arguments {
  const { values } = parseArgs({
    args: [...words],
    options: { serve: { type: 'boolean', default: false }, port: { type: 'string' } },
  });
  if (!values.serve) {
    if (values.port !== undefined) throw new Error('--port goes with --serve.');
    return { mode: 'story' };
  }
  const given = values.port ?? (environment['PORT'] || String(DEFAULT_PORT));
  const port = Number(given);
  if (!/^\d+$/.test(given) || port > 65_535) {
    throw new Error(`The port is a number from 0 to 65535, not '${given}'.`);
  }
  return { mode: 'serve', port };
}
