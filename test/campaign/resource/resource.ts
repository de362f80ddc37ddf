import { Program, type Edit } from '../../support/program.ts';

/** The process of the resource, seen from its parent. */
export class Resource {
  private constructor(
    private readonly program: Program,
    /** Port that workers connect to. */
    readonly port: number,
  ) {}

  /**
   * @param historyPath where it writes down every access
   * @param edits changes to the code of the fence: negative controls break it on purpose
   */
  static async start(historyPath: string, edits: readonly Edit[] = []): Promise<Resource> {
    const program = new Program(
      'test/campaign/resource/resource-process.ts',
      { historyPath },
      edits,
    );
    return new Resource(program, await program.first<number>());
  }

  /** @throws Error when it has ended by itself: then nothing it wrote down can be trusted to be complete. */
  async stop(): Promise<void> {
    if (this.program.end) throw this.program.end;
    await this.program.finish(10_000);
  }

  /** Ends it whatever its state. */
  async kill(): Promise<void> {
    await this.program.kill();
  }
}
