import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';

/** The process of the resource, seen from its parent. */
export class Resource {
  private constructor(
    private readonly child: ChildProcess,
    /** Where workers connect to. */
    readonly port: number,
  ) {}

  /** @param historyPath where it writes down every access */
  static async start(historyPath: string): Promise<Resource> {
    const child = fork(resolve('test/faults/resource/resource-process.ts'), [historyPath], {
      execArgv: ['--import', './test/support/typescript-loader.mjs'],
      env: { ...process.env, NODE_OPTIONS: '' },
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
