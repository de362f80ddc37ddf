import { readArguments, USAGE, type Arguments } from './arguments.ts';

/** Nothing else is loaded before the command line is understood. */
async function main(): Promise<void> {
  let options: Arguments;
  try {
    options = readArguments(process.argv.slice(2), process.env);
  } catch (error) {
    console.error(`${(error as Error).message.replace(/\.?$/, '.')} See npm start -- --help`);
    process.exitCode = 2;
    return;
  }
  if (options.mode === 'help') return console.log(USAGE);
  const { conduct } = await import('./conductor.ts');
  await conduct(options);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
});
