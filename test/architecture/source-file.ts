import { parseSync } from '@swc/core';
import { readFileSync, readdirSync } from 'node:fs';
import { join, posix } from 'node:path';

/** Parts of one TypeScript file that the rules look at: its code, without comments and strings. */
export interface SourceFile {
  /** Path from the root of the repository, with `/`. */
  readonly path: string;
  readonly imports: readonly ImportedModule[];
  readonly exports: readonly ExportedName[];
  /** Free-standing names (`setTimeout`) and members of free-standing names (`Math.random`). */
  readonly uses: ReadonlySet<string>;
  readonly classes: readonly DeclaredClass[];
}

export interface DeclaredClass {
  readonly name: string;
  /** How many fields it declares itself, the private ones and parameter properties included. */
  readonly fields: number;
}

export interface ImportedModule {
  readonly specifier: string;
  /** Nothing of it exists at run time. */
  readonly typeOnly: boolean;
}

export interface ExportedName {
  /** `default` for a default export, `*` for everything of another module. */
  readonly name: string;
  readonly typeOnly: boolean;
}

interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** Parses `text`; `path` is only its name. */
export function parseSource(path: string, text: string): SourceFile {
  const module = parseSync(text, { syntax: 'typescript', decorators: true, target: 'es2022' });
  const imports: ImportedModule[] = [];
  const exports: ExportedName[] = [];
  const uses = new Set<string>();
  const classes: DeclaredClass[] = [];
  visit(module, (node) => {
    imports.push(...importsOf(node));
    exports.push(...exportsOf(node));
    classes.push(...classesOf(node));
    const use = useOf(node);
    if (use !== undefined) uses.add(use);
  });
  return { path, imports, exports, uses, classes };
}

/** Reads all TypeScript files below `folder`, which is given from the root of the repository. */
export function readSources(folder: string): SourceFile[] {
  const names = readdirSync(join(process.cwd(), folder), { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => name.endsWith('.ts'))
    .sort()
    .map((name) => readSource(posix.join(folder, name.replaceAll('\\', '/'))));
}

export function readSource(path: string): SourceFile {
  return parseSource(path, readFileSync(join(process.cwd(), path), 'utf8'));
}

/** The file a relative import of `file` names, as written. */
export function resolveRelative(file: string, specifier: string): string {
  return posix.join(posix.dirname(file), specifier);
}

function visit(value: unknown, see: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, see);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (isNode(value)) see(value);
  for (const [field, child] of Object.entries(value)) {
    if (!isPlainName(value, field, child)) visit(child, see);
  }
}

/** `.now` and `{ now: … }`: names that stand for nothing by themselves. */
function isPlainName(parent: object, field: string, child: unknown): boolean {
  const { type, computed } = parent as { type?: unknown; computed?: unknown };
  if (!isNode(child) || child.type !== 'Identifier') return false;
  return (
    (field === 'property' && type === 'MemberExpression') || (field === 'key' && computed !== true)
  );
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { type?: unknown }).type === 'string'
  );
}

function importsOf(node: Node): ImportedModule[] {
  const source = textOf(node['source']);
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return source === undefined ? [] : [{ specifier: source, typeOnly: isTypeOnly(node) }];
    case 'TsImportType':
      return [{ specifier: textOf(node['argument']) ?? '', typeOnly: true }];
    case 'TsExternalModuleReference':
      return [{ specifier: textOf(node['expression']) ?? '', typeOnly: false }];
    case 'CallExpression': {
      const callee = node['callee'] as Node;
      if (callee.type !== 'Import' && callee['value'] !== 'require') return [];
      const [argument] = node['arguments'] as { expression: unknown }[];
      // A variable has a text too: its name, which says nothing about the module.
      const isWritten =
        isNode(argument?.expression) && argument.expression.type === 'StringLiteral';
      const specifier = isWritten ? textOf(argument.expression) : undefined;
      return [{ specifier: specifier ?? '<computed>', typeOnly: false }];
    }
    default:
      return [];
  }
}

function isTypeOnly(declaration: Node): boolean {
  if (declaration['typeOnly'] === true) return true;
  const specifiers = (declaration['specifiers'] ?? []) as { isTypeOnly?: boolean }[];
  return specifiers.length > 0 && specifiers.every(({ isTypeOnly: typeOnly }) => typeOnly === true);
}

function exportsOf(node: Node): ExportedName[] {
  switch (node.type) {
    case 'ExportDefaultDeclaration':
    case 'ExportDefaultExpression':
      return [{ name: 'default', typeOnly: false }];
    case 'ExportAllDeclaration':
      return [{ name: '*', typeOnly: false }];
    case 'ExportNamedDeclaration':
      return (node['specifiers'] as Node[]).map((specifier) => ({
        name:
          textOf(specifier['exported']) ??
          textOf(specifier['orig']) ??
          textOf(specifier['name']) ??
          '*',
        typeOnly: node['typeOnly'] === true || specifier['isTypeOnly'] === true,
      }));
    default:
      return [];
  }
}

const FIELDS = ['ClassProperty', 'PrivateProperty', 'TsParameterProperty'];

function classesOf(node: Node): DeclaredClass[] {
  if (node.type !== 'ClassDeclaration' && node.type !== 'ClassExpression') return [];
  const members = (node['body'] as Node[]).flatMap((member) =>
    member.type === 'Constructor' ? (member['params'] as Node[]) : [member],
  );
  const fields = members.filter(({ type }) => FIELDS.includes(type)).length;
  return [{ name: textOf(node['identifier']) ?? 'a class without a name', fields }];
}

function useOf(node: Node): string | undefined {
  if (node.type === 'Identifier') return textOf(node);
  if (node.type !== 'MemberExpression') return undefined;
  const object = node['object'] as Node;
  const property = node['property'] as Node;
  const member = property.type === 'Computed' ? textOf(property['expression']) : textOf(property);
  return object.type === 'Identifier' && member !== undefined
    ? `${textOf(object)}.${member}`
    : undefined;
}

/** Text of an identifier or a string. */
function textOf(node: unknown): string | undefined {
  const value = isNode(node) ? node['value'] : undefined;
  return typeof value === 'string' ? value : undefined;
}
