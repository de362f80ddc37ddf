import type { Edit } from '../../simulation/mutants/mutants.ts';

/** How node is started so that it runs our TypeScript, with these changes to it. */
export interface NodeSettings {
  readonly execArgv: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
}

export function nodeWithEdits(edits: readonly Edit[]): NodeSettings {
  const loaders = [
    './test/support/typescript-loader.mjs',
    './test/simulation/mutants/mutant-loader.mjs',
  ];
  const used = edits.length > 0 ? loaders : loaders.slice(0, 1);
  return {
    execArgv: used.flatMap((loader) => ['--import', loader]),
    environment: { SIMULATED_EDITS: JSON.stringify(edits) },
  };
}
