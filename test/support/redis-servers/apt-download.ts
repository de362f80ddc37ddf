import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from './run-command.ts';

/**
 * Fetches Debian packages without installing them and without root: apt keeps everything it writes in a temporary
 * directory. The machine's package lists are read when there are any, otherwise private ones are fetched.
 */
export class AptDownload {
  #hasPrivateLists = false;

  private constructor(private readonly directory: string) {}

  static async create(): Promise<AptDownload> {
    const directory = await mkdtemp(join(tmpdir(), 'fenced-lock-apt-'));
    for (const name of ['lists/partial', 'cache/archives/partial', 'log']) {
      await mkdir(join(directory, name), { recursive: true });
    }
    return new AptDownload(directory);
  }

  /** Unpacks one package into `folder` and resolves with the path of its archive, which lives as long as this object. */
  async extract(name: string, folder: string): Promise<string> {
    const target = join(this.directory, name);
    await mkdir(target, { recursive: true });
    try {
      await this.#apt(['download', name], target);
    } catch (error) {
      if (this.#hasPrivateLists) throw error;
      // The lists are missing, or older than what the archive still holds.
      this.#hasPrivateLists = true;
      await this.#apt(['update'], this.directory);
      await this.#apt(['download', name], target);
    }
    const archive = (await readdir(target)).find((file) => file.endsWith('.deb'));
    if (!archive) throw new Error(`apt-get download ${name} left no package`);
    await runCommand('dpkg', ['-x', join(target, archive), folder]);
    return join(target, archive);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }

  #apt(args: readonly string[], cwd: string): Promise<string> {
    const settings = {
      'Dir::Cache': join(this.directory, 'cache'),
      'Dir::Log': join(this.directory, 'log'),
      // Root's apt gives downloads to the user _apt, who may not write into our directories.
      'APT::Sandbox::User': '',
      'APT::Get::Update::Error-Mode': 'persistent-failure',
      'Acquire::Languages': 'none',
      ...(this.#hasPrivateLists && { 'Dir::State::lists': join(this.directory, 'lists') }),
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    return runCommand('apt-get', [...args, '-qq', ...options], { cwd });
  }
}
