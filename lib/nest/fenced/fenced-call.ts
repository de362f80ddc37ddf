import type { ArgumentsHost, ContextType, ExecutionContext, Type } from '@nestjs/common';
import type { FencedDefinition } from './fenced-metadata.ts';

/** Only a call that came through the wrapper of `@Fenced` carries it. */
const DEFINITION = Symbol.for('nestjs-fenced-lock/call-definition');

/** One call of a method under `@Fenced`, in the form in which interceptors see calls. */
export class FencedCall implements ExecutionContext {
  readonly [DEFINITION]: FencedDefinition;

  constructor(
    private readonly instance: object,
    private readonly handler: (...args: any[]) => unknown,
    /** Shared with the call: what is written here reaches the method. */
    private readonly args: unknown[],
    definition: FencedDefinition,
  ) {
    this[DEFINITION] = definition;
  }

  getClass<T = any>(): Type<T> {
    return this.instance.constructor as Type<T>;
  }
  getHandler(): (...args: any[]) => unknown {
    return this.handler;
  }
  getArgs<T extends any[] = any[]>(): T {
    return this.args as T;
  }
  getArgByIndex<T = any>(index: number): T {
    return this.args[index] as T;
  }
  getType<TContext extends string = ContextType>(): TContext {
    return 'fenced' as TContext;
  }
  switchToHttp(): ReturnType<ArgumentsHost['switchToHttp']> {
    const at = <T>(index: number) => this.args[index] as T;
    return { getRequest: () => at(0), getResponse: () => at(1), getNext: () => at(2) };
  }
  switchToRpc(): ReturnType<ArgumentsHost['switchToRpc']> {
    const at = <T>(index: number) => this.args[index] as T;
    return { getData: () => at(0), getContext: () => at(1) };
  }
  switchToWs(): ReturnType<ArgumentsHost['switchToWs']> {
    const at = <T>(index: number) => this.args[index] as T;
    return {
      getClient: () => at(0),
      getData: () => at(1),
      getPattern: () => at(this.args.length - 1),
    };
  }
}

/** The definition of a call through `@Fenced`; undefined for one that Nest made to a handler. */
export function fencedDefinitionOf(context: ExecutionContext): FencedDefinition | undefined {
  return (context as Partial<FencedCall>)[DEFINITION];
}
