import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename } from 'node:path';

/** A lock that a caller has, in the words of its library. */
export interface Lock {
  /** Whether the library says that it is held; undefined where it says nothing. */
  isHeld(): boolean | undefined;
  /** Gives it back. Rejects where the library does. */
  release(): Promise<unknown>;
  /** A number that grows with each grant of the key, where the library gives one. */
  readonly token?: number;
}

/** A library at work in one process. */
export interface Locks {
  /** Waits for as long as the library does, and rejects where it gives up. */
  acquire(key: string): Promise<Lock>;
  close(): Promise<unknown>;
}

/** A way to use a library: what to start for it, and how to begin. */
export interface Settings {
  /** For the table. */
  readonly what: string;
  readonly servers: number;
  /** The servers as this process reaches them, and how long a lock is to last without a renewal. */
  open(urls: readonly string[], ttlMs: number): Promise<Locks>;
  /** What has to be done once on the servers, before any process begins. */
  prepare?(urls: readonly string[]): Promise<unknown>;
  /** It is ours, and the part is red when it breaks a promise: the faults in which it does not promise that sections never overlap. */
  readonly mayOverlap?: readonly string[];
}

/** A lock library, as a file of `adapters` has it under the name `library`. */
export interface Library {
  /** The package whose version counts; undefined for this one. */
  readonly package?: string;
  readonly servers: 'redis' | 'postgres' | 'etcd';
  /** The names of its error classes: an error of another class is a raw one. */
  readonly errors: readonly string[];
  /** With as little said as the library allows. */
  readonly defaults: Settings;
  /** With what its documentation has for safety. Left out where there is no more to set. */
  readonly best?: Settings;
}

export const COLUMNS = ['defaults', 'best'] as const;
export type Column = (typeof COLUMNS)[number];

const FOLDER = 'campaign/libraries/adapters';

/** The names of the libraries: those of the files. */
export const LIBRARIES = readdirSync(FOLDER).map((file) => basename(file, '.ts'));

export async function loadLibrary(name: string): Promise<Library> {
  const { library } = (await import(`./adapters/${name}.ts`)) as { readonly library: Library };
  return library;
}

/** Loads a package of this folder, which is not installed where the code is only compiled. */
export const load: (name: string) => any = createRequire(import.meta.url);

/** The version that plays. */
export function versionOf({ package: name }: Library): string {
  return load(name === undefined ? '../../package.json' : `./node_modules/${name}/package.json`)
    .version;
}

/** A client of ioredis for each server, with its defaults, and a listener, without which it logs. */
export function connectRedis(urls: readonly string[], options: object = {}): any[] {
  const { Redis } = load('ioredis');
  return urls.map((url) => new Redis(url, options).on('error', () => undefined));
}

export async function disconnect(clients: readonly any[]): Promise<void> {
  for (const client of clients) client.disconnect();
}

/** What a library that says no without an error throws here. */
export class NotGranted extends Error {
  override readonly name = 'NotGranted';
}

type Said = Pick<Lock, 'isHeld'>;

/** The lock of a library that holds it for as long as a function runs: the function ends with the release. */
export function whileWorking(
  run: (work: (said: Said) => Promise<void>) => Promise<unknown>,
): Promise<Lock> {
  return new Promise((resolve, reject) => {
    let end = (): void => undefined;
    const worked = new Promise<void>((done) => (end = done));
    const ran = run((said) => {
      const release = (): Promise<unknown> => {
        end();
        return ran;
      };
      resolve({ ...said, release });
      return worked;
    });
    // What comes before the lock is the answer of acquire, and what comes after it that of release.
    ran.then(() => reject(new NotGranted()), reject);
  });
}
