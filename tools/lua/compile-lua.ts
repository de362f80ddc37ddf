import { parse } from 'luaparse';
import type * as lua from 'luaparse';

/**
 * Compiles the subset of Lua 5.1 that the scripts use to JavaScript: the source of a function `(R, $KEYS, $ARGV, $start)`, which
 * returns the values that the script returns as an array. `R` is the run time of `lib/testing/memory/lua-runtime.ts`.
 *
 * What stands outside the subset is an error here, so that no script means one thing on Redis and another one in memory.
 */
export function compileLua(text: string): string {
  const { body } = parse(text, {
    luaVersion: '5.1',
    encodingMode: 'pseudo-latin1',
    comments: false,
    scope: true,
  });
  // A block of its own, since a script may have locals with the names of its parameters.
  return `(R, $KEYS, $ARGV, $start) => {{\n${new Compiler().block(body)} }\nreturn []; }`;
}

/** What a script may call, by the name that the run time has for it. Each of them returns one value. */
const SINGLE: Readonly<Record<string, string>> = {
  'redis.call': 'call',
  'redis.pcall': 'pcall',
  'redis.error_reply': 'errorReply',
  'string.sub': 'sub',
  'string.find': 'find',
  'string.format': 'format',
  'string.gsub': 'gsub',
  'math.max': 'max',
  'math.min': 'min',
  'math.ceil': 'ceil',
  'math.floor': 'floor',
  'table.concat': 'concat',
  'table.remove': 'remove',
  tonumber: 'tonumber',
  tostring: 'tostring',
  type: 'type',
  'string.gmatch': 'gmatch',
  ipairs: 'ipairs',
};

const NUMBERS = new Set(['max', 'min', 'ceil', 'floor']);
const TEXTS = new Set(['sub', 'format', 'gsub', 'concat', 'tostring', 'type']);

/** What returns any number of values, as an array. */
const SEVERAL: Readonly<Record<string, string>> = {
  'string.match': 'match',
  unpack: 'unpack',
  pcall: 'protectedCall',
};

const ARITHMETIC = '+-*/';
const PARAMETERS = new Set(['KEYS', 'ARGV', 'start']);
const COMPARISONS: Readonly<Record<string, string>> = {
  '==': '===',
  '~=': '!==',
  '<': '<',
  '>': '>',
  '<=': '<=',
  '>=': '>=',
};

class Compiler {
  /** Locals that are another name for a function of Redis, such as `local call = redis.call`. */
  readonly #aliases = new Map<string, string>();

  block(body: readonly lua.Statement[]): string {
    return body.map((statement) => this.#statement(statement)).join('\n');
  }

  #statement(node: lua.Statement): string {
    switch (node.type) {
      case 'LocalStatement':
        return this.#local(node);
      case 'AssignmentStatement': {
        const targets = node.variables.map((each) => this.#value(each));
        if (targets.length === 1) return `${targets[0]} = ${this.#value(node.init[0]!)};`;
        return `;[${targets.join(', ')}] = ${this.#values(node.init)};`;
      }
      case 'CallStatement':
        return `${this.#call(node.expression)};`;
      case 'ReturnStatement':
        return `return ${this.#values(node.arguments)};`;
      case 'IfStatement':
        return node.clauses.map((clause) => this.#clause(clause)).join(' else ');
      case 'WhileStatement':
        return `while (${this.#condition(node.condition)}) {\n${this.block(node.body)} }`;
      case 'ForNumericStatement': {
        const [name, step] = [nameOf(node.variable), node.step ? this.#value(node.step) : '1'];
        const [from, to] = [this.#value(node.start), this.#value(node.end)];
        return `for (let ${name} = ${from}, end = ${to}; ${name} <= end; ${name} += ${step}) {\n${this.block(node.body)} }`;
      }
      case 'ForGenericStatement': {
        const names = node.variables.map(nameOf).join(', ');
        return `for (const [${names}] of ${this.#value(node.iterators[0]!)}) {\n${this.block(node.body)} }`;
      }
      case 'FunctionDeclaration':
        if (node.identifier?.type !== 'Identifier') break;
        return `const ${nameOf(node.identifier)} = ${this.#function(node)};`;
      default:
        break;
    }
    throw new Error(`A script has a ${node.type}, which is not compiled.`);
  }

  #local({ variables, init }: lua.LocalStatement): string {
    const parts = variables.map(({ name }, index) => {
      const value = init[index];
      const of = value === undefined ? undefined : globalName(value);
      if (of === 'redis.call' || of === 'redis.pcall') this.#aliases.set(name, of);
      return { name: `$${name}`, value };
    });
    const declared = new Set(variables.map(({ name }) => name));
    const isPlain =
      init.length <= variables.length &&
      !init.some((each, index) => index === init.length - 1 && this.#hasSeveral(each)) &&
      (variables.length === 1 || !init.some((each) => mentions(each, declared)));
    if (!isPlain)
      return `let [${parts.map(({ name }) => name).join(', ')}] = ${this.#values(init)};`;
    const isAlias = (name: string): boolean => this.#aliases.has(name.slice(1));
    const kept = parts.filter(({ name }) => !isAlias(name));
    if (kept.length === 0) return '';
    return `let ${kept.map(({ name, value }) => (value ? `${name} = ${this.#value(value)}` : name)).join(', ')};`;
  }

  #clause(clause: lua.IfClause | lua.ElseifClause | lua.ElseClause): string {
    const body = `{\n${this.block(clause.body)} }`;
    return clause.type === 'ElseClause'
      ? body
      : `if (${this.#condition(clause.condition)}) ${body}`;
  }

  #function({ parameters, body }: lua.FunctionDeclaration): string {
    const names = parameters.map((each) => (each.type === 'Identifier' ? nameOf(each) : '...rest'));
    return `(${names.join(', ')}) => {\n${this.block(body)}\nreturn []; }`;
  }

  /** One value, as an expression. */
  #value(node: lua.Expression): string {
    switch (node.type) {
      case 'StringLiteral':
        return JSON.stringify(node.value);
      case 'NumericLiteral':
      case 'BooleanLiteral':
        return String(node.value);
      case 'NilLiteral':
        return 'undefined';
      case 'VarargLiteral':
        return 'rest[0]';
      case 'Identifier':
        return this.#identifier(node);
      case 'MemberExpression':
        return `${this.#value(node.base)}.${node.identifier.name}`;
      case 'IndexExpression':
        return `${this.#value(node.base)}[${this.#value(node.index)}]`;
      case 'CallExpression':
        return this.#hasSeveral(node) ? `${this.#call(node)}[0]` : this.#call(node);
      case 'LogicalExpression':
        return this.#logical(node);
      case 'UnaryExpression':
        return this.#unary(node);
      case 'BinaryExpression':
        return this.#binary(node);
      case 'TableConstructorExpression':
        return this.#table(node);
      case 'FunctionDeclaration':
        return this.#function(node);
      default:
        throw new Error(`A script has a ${node.type}, which is not compiled.`);
    }
  }

  #identifier(node: lua.Identifier): string {
    if (!isLocal(node) && !PARAMETERS.has(node.name))
      throw new Error(`A script uses ${node.name}, which is not compiled.`);
    return nameOf(node);
  }

  /** Like the operators of JavaScript where the left side is a comparison, whose value is a boolean. */
  #logical(node: lua.LogicalExpression): string {
    const [left, right] = [this.#value(node.left), this.#value(node.right)];
    if (isBoolean(node.left)) return `(${left} ${node.operator === 'and' ? '&&' : '||'} ${right})`;
    return `R.${node.operator}(${left}, () => ${right})`;
  }

  #unary({ operator, argument }: lua.UnaryExpression): string {
    if (operator === 'not') return `!${this.#condition(argument)}`;
    if (operator === '#') return `R.length(${this.#value(argument)})`;
    if (operator === '-') return `-${this.#number(argument)}`;
    throw new Error(`A script has the operator ${operator}, which is not compiled.`);
  }

  #binary({ operator, left, right }: lua.BinaryExpression): string {
    const comparison = COMPARISONS[operator];
    if (comparison !== undefined)
      return `(${this.#value(left)} ${comparison} ${this.#value(right)})`;
    if (operator === '..') return `(${this.#text(left)} + ${this.#text(right)})`;
    if (ARITHMETIC.includes(operator))
      return `(${this.#number(left)} ${operator} ${this.#number(right)})`;
    throw new Error(`A script has the operator ${operator}, which is not compiled.`);
  }

  #number(node: lua.Expression): string {
    const value = this.#value(node);
    const isNumber =
      node.type === 'NumericLiteral' ||
      (node.type === 'BinaryExpression' && ARITHMETIC.includes(node.operator)) ||
      (node.type === 'UnaryExpression' && node.operator !== 'not') ||
      (node.type === 'CallExpression' && NUMBERS.has(SINGLE[this.#nameOfCall(node)] ?? ''));
    return isNumber ? value : `R.number(${value})`;
  }

  #text(node: lua.Expression): string {
    const value = this.#value(node);
    const isText =
      node.type === 'StringLiteral' ||
      (node.type === 'BinaryExpression' && node.operator === '..') ||
      (node.type === 'CallExpression' && TEXTS.has(SINGLE[this.#nameOfCall(node)] ?? ''));
    return isText ? value : `R.text(${value})`;
  }

  /** A table with names is an object, every other one an array whose first value stands at 1. */
  #table({ fields }: lua.TableConstructorExpression): string {
    const values: lua.Expression[] = [];
    const named: string[] = [];
    for (const field of fields) {
      if (field.type === 'TableKeyString')
        named.push(`${field.key.name}: ${this.#value(field.value)}`);
      else if (field.type === 'TableValue') values.push(field.value);
      else throw new Error('A script has a table with computed keys, which is not compiled.');
    }
    if (named.length > 0) return `{ ${named.join(', ')} }`;
    return values.length === 0 ? '[null]' : `[null, ${this.#spread(values)}]`;
  }

  /** All values of a list, as an array. */
  #values(list: readonly lua.Expression[]): string {
    const last = list.at(-1);
    if (list.length === 1 && last !== undefined && this.#hasSeveral(last))
      return this.#several(last);
    return `[${this.#spread(list)}]`;
  }

  /** Only the last one of a list gives all of its values. */
  #spread(list: readonly lua.Expression[]): string {
    return list
      .map((each, index) => {
        const isLast = index === list.length - 1;
        return isLast && this.#hasSeveral(each) ? `...${this.#several(each)}` : this.#value(each);
      })
      .join(', ');
  }

  #several(node: lua.Expression): string {
    return node.type === 'VarargLiteral' ? 'rest' : this.#call(node as lua.CallExpression);
  }

  #hasSeveral(node: lua.Expression): boolean {
    if (node.type === 'VarargLiteral') return true;
    return node.type === 'CallExpression' && SINGLE[this.#nameOfCall(node)] === undefined;
  }

  #nameOfCall({ base }: lua.CallExpression): string {
    const alias = base.type === 'Identifier' ? this.#aliases.get(base.name) : undefined;
    return alias ?? globalName(base) ?? '';
  }

  #call(node: lua.CallExpression | lua.StringCallExpression | lua.TableCallExpression): string {
    if (node.type !== 'CallExpression')
      throw new Error(`A script has a ${node.type}, which is not compiled.`);
    const name = this.#nameOfCall(node);
    const helper = SINGLE[name] ?? SEVERAL[name];
    const called = helper === undefined ? this.#value(node.base) : `R.${helper}`;
    return `${called}(${this.#spread(node.arguments)})`;
  }

  /** What stands between the parentheses of an `if`. */
  #condition(node: lua.Expression): string {
    if (node.type === 'LogicalExpression') {
      const operator = node.operator === 'and' ? '&&' : '||';
      return `(${this.#condition(node.left)} ${operator} ${this.#condition(node.right)})`;
    }
    return isBoolean(node) ? this.#value(node) : `R.isTrue(${this.#value(node)})`;
  }
}

function nameOf({ name }: lua.Identifier): string {
  return `$${name}`;
}

function isLocal(node: lua.Identifier): boolean {
  return (node as lua.Identifier & { isLocal?: boolean }).isLocal === true;
}

/** `redis.call` or `tonumber`, where that is what is meant. */
function globalName(node: lua.Expression): string | undefined {
  if (node.type === 'Identifier') return isLocal(node) ? undefined : node.name;
  if (node.type !== 'MemberExpression' || node.base.type !== 'Identifier') return undefined;
  return isLocal(node.base) ? undefined : `${node.base.name}.${node.identifier.name}`;
}

function isBoolean(node: lua.Expression): boolean {
  if (node.type === 'BinaryExpression') return node.operator in COMPARISONS;
  if (node.type === 'LogicalExpression') return isBoolean(node.left) && isBoolean(node.right);
  if (node.type === 'UnaryExpression') return node.operator === 'not';
  return node.type === 'BooleanLiteral';
}

/** Says whether an expression uses one of the names, of which an outer one may be meant. */
function mentions(node: unknown, names: ReadonlySet<string>): boolean {
  if (typeof node !== 'object' || node === null) return false;
  const { type, name } = node as { readonly type?: string; readonly name?: string };
  if (type === 'Identifier') return names.has(name!);
  if (type === 'MemberExpression') return mentions((node as lua.MemberExpression).base, names);
  return Object.values(node).some((each) => mentions(each, names));
}
