import { createHash } from 'node:crypto';
import { functionsOfScripts, SCRIPTS } from '../../../tools/lua/scripts.ts';
import type { LuaScript } from '../../../lib/testing/memory/lua-runtime.ts';
import { MemoryRedis, type MemorySnapshot } from '../../../lib/testing/memory/memory-redis.ts';

export type ScriptName = keyof typeof SCRIPTS;

/** The scripts that are shipped, compiled, by their texts. */
const COMPILED = new Map<string, readonly [name: ScriptName, run: LuaScript]>(
  Object.entries(functionsOfScripts()).map(([name, run]) => [
    SCRIPTS[name as ScriptName].text,
    [name as ScriptName, run],
  ]),
);

/** The lines that a client puts in front of a voting script: see `salted`. */
const SALTED =
  /^local start = '(\w+)'[^\n]*\n(?:local replication[\s\S]*?master_replid:(\w+)[^\n]*\nthen start = '' end\n)?if not ARGV\[1\] [^\n]*\n([\s\S]*)$/;

/** A script as a server has loaded it. */
interface LoadedScript {
  readonly name: ScriptName;
  readonly run: LuaScript;
  /** What stands in front of the script: the server, and its reign, that it is for. */
  readonly start: string;
  readonly replicationId: string | undefined;
}

/** A request on the wire: the letter of its script, and the values. */
type Request = readonly [letter: string, ...values: string[]];

/** An error that a server answers. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

/** What one start of a server is known by. */
interface Reign {
  readonly runId: string;
  replicationId: string;
  formerId: string;
  readonly startedAtMicros: number;
}

const NO_ID = '0'.repeat(40);

/** A Redis in virtual time: it takes commands as words, and runs the scripts that are shipped. */
export class SimulatedRedis {
  readonly data: MemoryRedis;
  readonly #clock: () => number;
  readonly #newId: () => string;
  readonly #scripts = new Map<string, LoadedScript>();
  #reign: Reign;

  constructor(
    clock: () => number,
    newId: () => string,
    publish: (channel: string, message: string) => number,
    refusal: (name: string) => string | undefined,
  ) {
    this.#clock = clock;
    this.#newId = newId;
    this.data = new MemoryRedis(clock, (section) => this.#info(section), publish, refusal);
    this.#reign = this.#newReign();
  }

  get runId(): string {
    return this.#reign.runId;
  }

  /** The first word of the marker's reign: it is another one after each start and each promotion. */
  get reign(): string {
    return this.#reign.runId + this.#reign.replicationId;
  }

  /** A voting script was loaded. */
  get knowsScripts(): boolean {
    return [...this.#scripts.values()].some(({ name }) => name === 'acquire');
  }

  /** Starts again: another run, and no scripts. */
  restart(): void {
    this.#scripts.clear();
    this.#reign = this.#newReign();
  }

  /** Becomes the primary, with these data. Its scripts are those that it had when it was one before. */
  promote(data: MemorySnapshot): void {
    this.data.load(data);
    this.#reign.formerId = this.#reign.replicationId;
    this.#reign.replicationId = this.#newId();
  }

  forgetScripts(): void {
    this.#scripts.clear();
  }

  /** The requests in a command: their letters in a batch, and their values. */
  requestsIn([name, text = '', count, ...rest]: readonly string[]): Request[] {
    const script = name === 'eval' ? scriptOf(text)?.name : this.#scripts.get(text)?.name;
    const values = rest.slice(Number(count));
    if (script !== 'batch') return script === undefined ? [] : [[script[0]!, ...values]];
    return values.flatMap((word, at) =>
      at % 4 === 0 ? [[word[0]!, ...values.slice(at + 1, at + 4)] as const] : [],
    );
  }

  /** The holders of the attempts that want a vote for a new lock. */
  attemptsIn(words: readonly string[]): string[] {
    return this.requestsIn(words)
      .filter(([letter]) => letter === 'a')
      .map(([, , holder]) => holder!);
  }

  /** Executes a command. @throws ReplyError with what the server answers */
  execute(words: readonly string[]): unknown {
    const [name = '', first = '', ...others] = words;
    try {
      switch (name.toLowerCase()) {
        case 'ping':
          return 'PONG';
        case 'script':
          return this.#load(others[0]!);
        case 'eval':
          this.#load(first);
          return this.#run(digestOf(first), others);
        case 'evalsha':
          return this.#run(first, others);
        case 'config':
          return [];
        case 'info':
          return this.#info(first);
        default:
          return this.data.call(name.toUpperCase(), first, ...others);
      }
    } catch (error) {
      throw new ReplyError((error as Error).message);
    }
  }

  #load(text: string): string {
    const digest = digestOf(text);
    const script = scriptOf(text);
    if (script !== undefined) this.#scripts.set(digest, script);
    return digest;
  }

  #run(digest: string, [count = '0', ...rest]: readonly string[]): unknown {
    const script = this.#scripts.get(digest);
    // A script that only asks for rights is none of those that are compiled.
    if (script === undefined) throw new Error('NOSCRIPT No matching script. Please use EVAL.');
    const { run, start, replicationId } = script;
    const isReign = replicationId === undefined || replicationId === this.#reign.replicationId;
    const keys = rest.slice(0, Number(count));
    const values = rest.slice(Number(count));
    if (start !== '' && values.length === 0) return start === this.runId.slice(0, 8) ? 1 : 0;
    return this.data.run(run, keys, values, isReign ? start : '');
  }

  #info(section: string): string {
    const { runId, replicationId, formerId, startedAtMicros } = this.#reign;
    const upS = Math.floor((this.#clock() - startedAtMicros) / 1e6);
    const server = `redis_version:7.2.0\r\nrun_id:${runId}\r\nuptime_in_seconds:${upS}\r\n`;
    const replication = `role:master\r\nmaster_replid:${replicationId}\r\nmaster_replid2:${formerId}\r\n`;
    return { server, replication }[section] ?? server + replication;
  }

  #newReign(): Reign {
    const [runId, replicationId] = [this.#newId(), this.#newId()];
    return { runId, replicationId, formerId: NO_ID, startedAtMicros: this.#clock() };
  }
}

function scriptOf(text: string): LoadedScript | undefined {
  const [, start = '', replicationId, body = text] = SALTED.exec(text) ?? [];
  const compiled = COMPILED.get(body);
  return compiled && { name: compiled[0], run: compiled[1], start, replicationId };
}

function digestOf(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}
