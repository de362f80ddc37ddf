import { parseArgs, type ParseArgsConfig } from 'node:util';

type Spec = NonNullable<ParseArgsConfig['options']>;
type Values<Options extends Spec> = ReturnType<typeof parseArgs<{ options: Options }>>['values'];

/** The options of the command's call. `--help` prints `usage` and ends it; so does, in one line, what `spec` does not know. */
export function readOptions<const Options extends Spec>(
  spec: Options,
  usage: string,
): Values<Options> {
  try {
    const { values } = parseArgs<{ options: Spec }>({
      options: { ...spec, help: { type: 'boolean' } },
    });
    if (!values['help']) return values as Values<Options>;
  } catch (error) {
    // The first sentence names the option; the others explain how Node.js reads arguments.
    refuse(error instanceof Error ? error.message.split(/\. |\n/)[0]! : String(error));
  }
  process.stdout.write(`${usage.trim()}\n`);
  return process.exit(0);
}

/** Ends the command with one line that says what it cannot do. */
export function refuse(why: string): never {
  process.stderr.write(`${why} (see --help)\n`);
  return process.exit(2);
}

/** The value of an option that takes a positive whole number. */
export function positiveInteger(option: string, value: string): number {
  const number = Number(value);
  if (Number.isSafeInteger(number) && number > 0) return number;
  return refuse(`--${option} takes a positive whole number, not '${value}'`);
}
