import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  // Shown as it is: a browser would offer other types for download.
  '.md': 'text/plain; charset=utf-8',
};

export interface PageFile {
  readonly type: string;
  readonly content: Buffer;
}

/** The files of the page, read once. Only these can be asked for. */
export class PageFiles {
  readonly #files = new Map<string, PageFile>();

  /**
   * @param folder with nothing but the files of the page.
   * @param others files from elsewhere, by the names under which the page asks for them.
   */
  constructor(folder: URL, others: Readonly<Record<string, URL>>) {
    for (const name of readdirSync(folder)) this.#add(name, new URL(name, folder));
    for (const [name, place] of Object.entries(others)) this.#add(name, place);
  }

  #add(name: string, place: URL): void {
    const type = TYPES[extname(place.pathname)];
    if (type) this.#files.set(name, { type, content: readFileSync(place) });
  }

  find(name: string): PageFile | undefined {
    return this.#files.get(name);
  }
}
