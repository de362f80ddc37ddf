import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  // Shown as it is: a browser would offer other types for download.
  '.md': 'text/plain; charset=utf-8',
};

export interface PageFile {
  readonly type: string;
  readonly text: string;
}

/** The files of the page, read once. Only these can be asked for. */
export class PageFiles {
  readonly #files = new Map<string, PageFile>();

  /**
   * @param folder with nothing but the files of the page.
   * @param readme what the page links to.
   */
  constructor(folder: URL, readme: URL) {
    this.#files.set('README.md', { type: TYPES['.md']!, text: readFileSync(readme, 'utf8') });
    for (const name of readdirSync(folder)) {
      const type = TYPES[extname(name)];
      if (type) this.#files.set(name, { type, text: readFileSync(new URL(name, folder), 'utf8') });
    }
  }

  find(name: string): PageFile | undefined {
    return this.#files.get(name);
  }
}
