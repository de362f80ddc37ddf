import { LuaRuntime, type LuaScript } from './lua-runtime.ts';

/** A member of a sorted set with its score, in the order of Redis: by score, then by member. */
type Ranked = readonly [score: number, member: string];

interface Entry {
  readonly value: string | readonly Ranked[];
  /** Milliseconds of the server's clock; `Infinity`: never. */
  readonly expiresAtMs: number;
}

/** The data of one server at one moment, as in a dump file. Opaque. */
export type MemorySnapshot = ReadonlyMap<string, unknown>;

/** What a server answers about itself, by section. */
export type ServerInfo = (section: string) => string;

/** Delivers a message to those that subscribed to a channel, and returns how many they are. */
type Publish = (channel: string, message: string) => number;

/** Returns the error with which a command is refused at the moment; undefined where it is not. */
type Refusal = (name: string) => string | undefined;

/** How many arguments a command takes, at least and at most. */
const ARGUMENTS: Readonly<Record<string, readonly [least: number, most: number]>> = {
  GET: [1, 1],
  MGET: [1, Infinity],
  SET: [2, Infinity],
  PSETEX: [3, 3],
  EXISTS: [1, Infinity],
  DEL: [1, Infinity],
  PTTL: [1, 1],
  PEXPIRE: [2, 2],
  ZADD: [3, 3],
  ZCARD: [1, 1],
  ZRANGE: [3, 4],
  ZPOPMIN: [1, 1],
  TIME: [0, 0],
  INFO: [1, 1],
  PUBLISH: [2, 2],
};

const OK = Object.freeze({ ok: 'OK' });
const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value';
const NOT_AN_INTEGER = 'ERR value is not an integer or out of range';

/**
 * A small Redis: the commands that the scripts of the package call, and those scripts, with the answers and errors of Redis.
 * Each command, and each script as a whole, happens at one moment of the clock.
 */
export class MemoryRedis {
  #keys = new Map<string, Entry>();
  #nowMicros: number | undefined;
  readonly #clock: () => number;
  readonly #info: ServerInfo;
  readonly #publish: Publish;
  readonly #refusal: Refusal;
  readonly #lua = new LuaRuntime((name, ...values) => this.#execute(name, values));

  constructor(
    clock: () => number,
    info: ServerInfo,
    publish: Publish,
    refusal: Refusal = () => undefined,
  ) {
    this.#clock = clock;
    this.#info = info;
    this.#publish = publish;
    this.#refusal = refusal;
  }

  /** Runs a script. Returns its answer; null stands for nil. @throws Error with the message of the server */
  run(
    script: LuaScript,
    keys: readonly string[],
    values: readonly (string | number)[],
    start?: string,
  ): unknown {
    return this.#atOneMoment(() => this.#lua.run(script, keys, values.map(String), start));
  }

  /** Runs a command. Returns its answer; null stands for nil. @throws Error with the message of the server */
  call(name: string, ...values: (string | number)[]): any {
    return this.#atOneMoment(() => this.#execute(name, values.map(String)));
  }

  /** The names of the keys that hold a text and begin with `prefix`. */
  names(prefix = ''): string[] {
    const isText = (name: string): boolean =>
      name.startsWith(prefix) && typeof this.#live(name)?.value === 'string';
    return this.#atOneMoment(() => [...this.#keys.keys()].filter(isText));
  }

  /** FLUSHALL. */
  clear(): void {
    this.#keys.clear();
  }

  dump(): MemorySnapshot {
    return new Map(this.#keys);
  }

  load(snapshot: MemorySnapshot): void {
    this.#keys = new Map(snapshot as ReadonlyMap<string, Entry>);
  }

  #atOneMoment<Answer>(action: () => Answer): Answer {
    this.#nowMicros = this.#clock();
    try {
      return action();
    } finally {
      this.#nowMicros = undefined;
    }
  }

  get #nowMs(): number {
    return Math.floor(this.#nowMicros! / 1000);
  }

  #execute(name: string, values: readonly string[]): unknown {
    const [least, most] = ARGUMENTS[name] ?? [];
    if (least === undefined) throw new Error(`ERR unknown command '${name}'`);
    if (values.length < least || values.length > most!)
      throw new Error(`ERR wrong number of arguments for '${name.toLowerCase()}' command`);
    const refusal = this.#refusal(name);
    if (refusal !== undefined) throw new Error(refusal);
    const [key = '', first = '', second = ''] = values;
    switch (name) {
      case 'GET':
        return this.#text(key);
      case 'MGET':
        return values.map((each) => this.#textOf(this.#live(each)));
      case 'SET':
        return this.#set(key, first, values.slice(2));
      case 'PSETEX':
        return this.#set(key, second, ['PX', first]);
      case 'EXISTS':
        return values.filter((each) => this.#live(each) !== undefined).length;
      case 'DEL':
        return values.filter((each) => this.#live(each) && this.#keys.delete(each)).length;
      case 'PTTL':
        return this.#remainingMs(key);
      case 'PEXPIRE':
        return this.#expire(key, integerOf(first));
      case 'ZADD':
        return this.#add(key, first, second);
      case 'ZCARD':
        return this.#ranking(key).length;
      case 'ZRANGE':
        return this.#range(
          key,
          integerOf(first),
          integerOf(second),
          values[3]?.toUpperCase() === 'WITHSCORES',
        );
      case 'ZPOPMIN':
        return this.#popFirst(key);
      case 'TIME':
        return [Math.floor(this.#nowMicros! / 1e6), this.#nowMicros! % 1e6].map(String);
      case 'INFO':
        return this.#info(key);
      case 'PUBLISH':
        return this.#publish(key, first);
      default:
        throw new Error('a command without a case');
    }
  }

  #live(key: string): Entry | undefined {
    const entry = this.#keys.get(key);
    if (entry === undefined || this.#nowMs <= entry.expiresAtMs) return entry;
    this.#keys.delete(key);
    return undefined;
  }

  #textOf(entry: Entry | undefined): string | null {
    return typeof entry?.value === 'string' ? entry.value : null;
  }

  #text(key: string): string | null {
    const entry = this.#live(key);
    if (entry !== undefined && typeof entry.value !== 'string') throw new Error(WRONG_TYPE);
    return this.#textOf(entry);
  }

  #set(key: string, value: string, options: readonly string[]): unknown {
    const before = this.#live(key);
    let expiresAtMs = Infinity;
    let isRefused = false;
    for (let index = 0; index < options.length; index += 1) {
      const option = options[index]!.toUpperCase();
      if (option === 'NX') isRefused = before !== undefined;
      else if (option === 'KEEPTTL') expiresAtMs = before?.expiresAtMs ?? Infinity;
      else if (option === 'PX' || option === 'PXAT') {
        const ms = integerOf(options[(index += 1)] ?? '');
        if (ms <= 0) throw new Error("ERR invalid expire time in 'set' command");
        expiresAtMs = option === 'PX' ? this.#nowMs + ms : ms;
      } else throw new Error('ERR syntax error');
    }
    if (isRefused) return null;
    this.#keys.set(key, { value, expiresAtMs });
    return OK;
  }

  #remainingMs(key: string): number {
    const entry = this.#live(key);
    if (entry === undefined) return -2;
    return entry.expiresAtMs === Infinity ? -1 : entry.expiresAtMs - this.#nowMs;
  }

  #expire(key: string, ms: number): number {
    const entry = this.#live(key);
    if (entry === undefined) return 0;
    if (ms <= 0) this.#keys.delete(key);
    else this.#keys.set(key, { value: entry.value, expiresAtMs: this.#nowMs + ms });
    return 1;
  }

  #ranking(key: string): readonly Ranked[] {
    const value = this.#live(key)?.value ?? [];
    if (typeof value === 'string') throw new Error(WRONG_TYPE);
    return value;
  }

  /** Returns how many members are new. */
  #add(key: string, score: string, member: string): number {
    const ranked: Ranked = [score === '-inf' ? -Infinity : numberOf(score), member];
    const before = this.#ranking(key);
    const others = before.filter(([, each]) => each !== member);
    const place = others.findIndex((other) => isBefore(ranked, other));
    const value = others.toSpliced(place < 0 ? others.length : place, 0, ranked);
    this.#keys.set(key, { value, expiresAtMs: this.#live(key)?.expiresAtMs ?? Infinity });
    return value.length - before.length;
  }

  #range(key: string, first: number, last: number, hasScores: boolean): string[] {
    const ranking = this.#ranking(key);
    const found = ranking.slice(first, last < 0 ? ranking.length + last + 1 : last + 1);
    return found.flatMap(([score, member]) => (hasScores ? [member, textOf(score)] : [member]));
  }

  #popFirst(key: string): string[] {
    const [first, ...others] = this.#ranking(key);
    if (first === undefined) return [];
    if (others.length === 0) this.#keys.delete(key);
    else this.#keys.set(key, { ...this.#keys.get(key)!, value: others });
    return [first[1], textOf(first[0])];
  }
}

function isBefore([score, member]: Ranked, [otherScore, otherMember]: Ranked): boolean {
  return score < otherScore || (score === otherScore && member < otherMember);
}

function textOf(score: number): string {
  return score === -Infinity ? '-inf' : String(score);
}

function integerOf(value: string): number {
  if (!/^-?\d{1,16}$/.test(value)) throw new Error(NOT_AN_INTEGER);
  return Number(value);
}

function numberOf(value: string): number {
  const number = Number(value);
  if (value === '' || Number.isNaN(number)) throw new Error('ERR value is not a valid float');
  return number;
}
