/** A value of Lua: nil is undefined, and a table is an array whose first value stands at 1, or an object. */
export type LuaValue = any;

/** A script, compiled: what it returns, all of it. `start` is what the client puts in front of its text. */
export type LuaScript = (
  runtime: LuaRuntime,
  keys: readonly LuaValue[],
  values: readonly LuaValue[],
  start: string,
) => LuaValue[];

/** The command in which a Redis runs a script: its answer, or what it throws, is that of the script. */
export type RedisCall = (name: string, ...values: string[]) => unknown;

/** The functions of Lua 5.1 that the compiled scripts use, with Lua's meaning. */
export class LuaRuntime {
  readonly #redis: RedisCall;

  constructor(redis: RedisCall) {
    this.#redis = redis;
  }

  /** Runs a script, and returns its answer as a client of Redis gets it. */
  run(script: LuaScript, keys: readonly string[], values: readonly string[], start = ''): unknown {
    const [answer] = script(this, [null, ...keys], [null, ...values], start);
    if (answer?.err !== undefined) throw new Error(answer.err);
    return answerOf(answer);
  }

  call(name: string, ...values: LuaValue[]): LuaValue {
    return valueOf(this.#redis(name, ...values.map((value) => this.text(value))));
  }

  pcall(name: string, ...values: LuaValue[]): LuaValue {
    try {
      return this.call(name, ...values);
    } catch (error) {
      return { err: (error as Error).message };
    }
  }

  errorReply(message: string): LuaValue {
    return { err: message };
  }

  isTrue(value: LuaValue): boolean {
    return value !== undefined && value !== false;
  }

  and(left: LuaValue, right: () => LuaValue): LuaValue {
    return this.isTrue(left) ? right() : left;
  }

  or(left: LuaValue, right: () => LuaValue): LuaValue {
    return this.isTrue(left) ? left : right();
  }

  /** The operand of an arithmetic operator: texts of digits are numbers there. */
  number(value: LuaValue): number {
    if (typeof value === 'number') return value;
    const number = this.tonumber(value);
    if (number === undefined)
      throw new Error(`attempt to perform arithmetic on a ${this.type(value)} value`);
    return number;
  }

  /** Whole digits, as Redis makes of an argument; `..` would not, and no script does that with so large numbers. */
  text(value: LuaValue): string {
    if (typeof value === 'string') return value;
    if (Number.isSafeInteger(value)) return String(value);
    if (typeof value === 'number') return String(Number(value.toPrecision(14)));
    throw new Error(`attempt to concatenate a ${this.type(value)} value`);
  }

  length(value: LuaValue): number {
    return typeof value === 'string' ? value.length : value.length - 1;
  }

  tonumber(value: LuaValue): number | undefined {
    if (typeof value === 'number') return value;
    if (typeof value !== 'string' || value.trim() === '') return undefined;
    const number = Number(value);
    return Number.isNaN(number) ? undefined : number;
  }

  tostring(value: LuaValue): string {
    return value === undefined ? 'nil' : String(value);
  }

  type(value: LuaValue): string {
    if (value === undefined) return 'nil';
    return typeof value === 'object' ? 'table' : typeof value;
  }

  max(...values: LuaValue[]): number {
    return Math.max(...values.map((value) => this.number(value)));
  }

  min(...values: LuaValue[]): number {
    return Math.min(...values.map((value) => this.number(value)));
  }

  ceil(value: LuaValue): number {
    return Math.ceil(this.number(value));
  }

  floor(value: LuaValue): number {
    return Math.floor(this.number(value));
  }

  sub(value: LuaValue, first: number, last = -1): string {
    const text = this.text(value);
    const from = first < 0 ? Math.max(0, text.length + first) : Math.max(0, first - 1);
    return text.slice(from, last < 0 ? text.length + last + 1 : last);
  }

  find(value: LuaValue, pattern: string, _first = 1, isPlain = false): number | undefined {
    const text = this.text(value);
    const index = isPlain ? text.indexOf(pattern) : text.search(expressionOf(pattern));
    return index < 0 ? undefined : index + 1;
  }

  match(value: LuaValue, pattern: string): LuaValue[] {
    const found = expressionOf(pattern).exec(this.text(value));
    if (found === null) return [];
    return found.length > 1 ? found.slice(1) : [found[0]];
  }

  gmatch(value: LuaValue, pattern: string): LuaValue[] {
    const found = this.text(value).matchAll(expressionOf(pattern, 'g'));
    return Array.from(found, (each) => each.slice(1));
  }

  gsub(value: LuaValue, pattern: string, replacement: string): string {
    return this.text(value).replace(expressionOf(pattern, 'g'), () => replacement);
  }

  /** `%s` and `%.0f`, which may have a width with zeros. */
  format(template: string, ...values: LuaValue[]): string {
    let index = 0;
    return template.replace(
      /%(?:0(\d+))?(?:\.0)?([sf])/g,
      (_all, width: string | undefined, letter) => {
        const value = values[index++];
        if (letter === 's') return this.text(value);
        return this.number(value)
          .toFixed(0)
          .padStart(Number(width ?? 0), '0');
      },
    );
  }

  concat(table: LuaValue, separator: string): string {
    return table.slice(1).join(separator);
  }

  remove(table: LuaValue, index: number): LuaValue {
    return table.splice(index, 1)[0];
  }

  unpack(table: LuaValue): LuaValue[] {
    return table.slice(1);
  }

  ipairs(table: LuaValue): [number, LuaValue][] {
    const values: LuaValue[] = Array.isArray(table) ? table.slice(1) : [];
    return values.map((value, index) => [index + 1, value]);
  }

  protectedCall(call: (...values: LuaValue[]) => LuaValue[], ...values: LuaValue[]): LuaValue[] {
    try {
      return [true, ...call(...values)];
    } catch (error) {
      return [false, (error as Error).message];
    }
  }
}

/** An answer of Redis as a script sees it: a list is a table, and what is missing is false. */
function valueOf(answer: unknown): LuaValue {
  if (answer === null) return false;
  return Array.isArray(answer) ? [null, ...answer.map(valueOf)] : answer;
}

/** What a script returns as a client sees it: a list ends at its first nil, and numbers lose their fraction. */
function answerOf(value: LuaValue): unknown {
  if (value === undefined || value === false) return null;
  if (value === true) return 1;
  if (typeof value === 'number') return Math.trunc(value);
  if (!Array.isArray(value)) return value.err === undefined ? (value.ok ?? value) : value;
  const end = value.indexOf(undefined);
  return value.slice(1, end < 0 ? value.length : end).map(answerOf);
}

const expressions = new Map<string, RegExp>();

/** The regular expression for a pattern of Lua, of those that scripts use. */
function expressionOf(pattern: string, flags = ''): RegExp {
  const name = flags + pattern;
  let expression = expressions.get(name);
  if (expression === undefined) {
    if (/%[^Sdw]|\\/.test(pattern)) throw new Error(`The pattern ${pattern} is not compiled.`);
    const source = pattern.replaceAll('%w', '[A-Za-z0-9]').replaceAll('%', '\\');
    expression = new RegExp(source, `${flags}s`);
    expressions.set(name, expression);
  }
  expression.lastIndex = 0;
  return expression;
}
