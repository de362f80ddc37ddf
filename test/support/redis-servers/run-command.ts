import { execFile } from 'node:child_process';

/** Runs a program to its end and resolves with its standard output; rejects with what it wrote when it fails. */
export function runCommand(
  command: string,
  args: readonly string[],
  options: { cwd?: string; environment?: NodeJS.ProcessEnv; timeoutMs?: number } = {},
): Promise<string> {
  const { cwd, environment = process.env, timeoutMs = 120_000 } = options;
  // The answers are read by this code, so they must not be translated.
  const env = { ...environment, LC_ALL: 'C' };
  return new Promise((resolve, reject) => {
    execFile(command, args, { cwd, env, timeout: timeoutMs }, (error, stdout, stderr) => {
      if (!error) resolve(stdout);
      else reject(new Error(`${command} ${args.at(0) ?? ''}: ${stderr.trim() || error.message}`));
    });
  });
}

/** The version of a redis-server or valkey-server executable, from the `v=7.0.15` of its own answer. */
export async function serverVersion(command: string, libraryPath?: string): Promise<string> {
  const environment = libraryPath ? { ...process.env, LD_LIBRARY_PATH: libraryPath } : process.env;
  const answer = await runCommand(command, ['--version'], { environment });
  const version = /\bv=(\S+)/.exec(answer)?.[1];
  if (!version) throw new Error(`${command} --version answered ${answer.trim()}`);
  return version;
}
