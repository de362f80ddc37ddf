import { readArguments, USAGE, type Arguments } from './arguments.ts';

let options: Arguments | undefined;
try {
  options = readArguments(process.argv.slice(2));
} catch (error) {
  process.stderr.write(
    `${(error as Error).message.replace(/\.?$/, '.')} See npm run bench -- --help\n`,
  );
  process.exitCode = 2;
}
if (options?.help) {
  process.stdout.write(`${USAGE}\n`);
} else if (options) {
  const { runScenarios } = await import('./run-scenarios.ts');
  const areKept = await runScenarios(options);
  if (options.check && !areKept) process.exitCode = 1;
}
