import type { FencedKey } from './fenced-key.ts';
import type { FencedOptions } from './fenced-options.ts';

/** Methods that can be locked until they settle: not synchronous ones, streams or generators. */
export type PromiseMethod = (...args: any[]) => Promise<any>;

/** `unknown` when the key fits the method, else a type whose name is the message that the compiler shows. */
type KeyFits<Key extends FencedKey, Method extends PromiseMethod> = Key extends (
  ...args: never[]
) => unknown
  ? Key extends (...args: Parameters<Method>) => unknown
    ? unknown
    : { 'The parameters of the key function must be the first parameters of the method': never }
  : unknown;

type ResultFits<Options extends FencedOptions, Method extends PromiseMethod> = Options extends {
  readonly onBusy: 'skip';
}
  ? undefined extends Awaited<ReturnType<Method>>
    ? unknown
    : {
        "onBusy: 'skip' resolves undefined: the method must return Promise<T | undefined> or Promise<void>": never;
      }
  : unknown;

/** The decorator that `Fenced` returns: it only accepts methods that its key and options can work for. */
export type FencedDecorator<Key extends FencedKey, Options extends FencedOptions> = <
  Method extends PromiseMethod,
>(
  target: object,
  propertyKey: string | symbol,
  descriptor: TypedPropertyDescriptor<Method> & KeyFits<Key, Method> & ResultFits<Options, Method>,
) => void;
