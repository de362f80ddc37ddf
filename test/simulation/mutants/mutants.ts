import { CORE_MUTANTS } from './core-mutants.ts';
import type { Mutant } from './mutant.ts';
import { NODE_MUTANTS } from './node-mutants.ts';

export const MUTANTS: readonly Mutant[] = [...CORE_MUTANTS, ...NODE_MUTANTS];
