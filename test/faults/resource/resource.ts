import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { Edit } from '../../simulation/mutants/mutants.ts';
import { nodeWithEdits } from '../run/node-with-edits.ts';

/** The process of the resource, seen from its parent. */
export class Resource {
  private constructor(
    private readonly child: ChildProcess,
    /** Where workers connect to. */
    readonly port: number,
  ) {}

  /**
   * @param historyPath where it writes down every access
   * @param edits changes to the code of the fence: negative controls break it on purpose
   */
  static async start(historyPath: string, edits: readonly Edit[] = []): Promise<Resource> {
    const { execArgv, environment } = nodeWithEdits(edits);
    const child = fork(resolve('test/faults/resource/resource-process.ts'), [historyPath], {
      execArgv: [...execArgv],
      env: { ...process.env, NODE_OPTIONS: '', ...environment },
    });
    const [first] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => {
        throw new Error(`The resource ended with ${String(code)} at its start`);
      }),
    ])) as [{ port: number }];
    return new Resource(child, first.port);
  }

  /** @throws Error when it has ended by itself: then nothing it wrote down can be trusted to be complete. */
  async stop(): Promise<void> {
    const { child } = this;
    if (child.exitCode !== null) throw new Error(`The resource ended with ${child.exitCode}`);
    const exited = once(child, 'exit');
    child.disconnect();
    await exited;
  }

  /** Ends it whatever its state. */
  kill(): void {
    this.child.kill('SIGKILL');
  }
}
