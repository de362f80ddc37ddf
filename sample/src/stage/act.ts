import type { Stage } from './stage.ts';
import type { Promised } from './summary.ts';

/** Scene of the story: what it promises, and how it is played. */
export interface Act {
  readonly title: string;
  /** Promises, each held against what `play` observed. */
  readonly promises: readonly Promised[];
  /** Kills or freezes Redis servers, which is possible only with servers that were started here. @default false */
  readonly needsFaults?: boolean;
  /** Show every step of every booking, not only how it ended. @default false */
  readonly showsEveryStep?: boolean;
  play(stage: Stage): Promise<void>;
}
