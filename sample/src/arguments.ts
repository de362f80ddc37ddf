import { parseArgs } from 'node:util';

const DEFAULT_PORT = 4600;

export const USAGE = `Usage: npm start -- [--serve [--port <number>]]

Plays a story of seat bookings and faults, and ends with a table of what was promised and what was observed.

  --serve           serve a page instead, on which the sale never ends
  --port <number>   the port of the page: 0 takes any free one; default: PORT, or ${DEFAULT_PORT}
  --help            show this text`;

/** Request of the command line and the environment. */
export type Arguments =
  | { readonly mode: 'help' }
  | { readonly mode: 'story' }
  | {
      readonly mode: 'serve';
      /** 0 takes any free one. */
      readonly port: number;
    };

/**
 * Reads `--serve` and `--port`; the environment's `PORT` counts where the option is missing.
 * @throws Error that says in one line what is wrong with them.
 */
export function readArguments(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Arguments {
  const { values } = parseArgs({
    args: [...words],
    options: {
      serve: { type: 'boolean', default: false },
      port: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return { mode: 'help' };
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
