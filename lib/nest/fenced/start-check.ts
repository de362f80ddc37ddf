import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';

const BEGINS = Symbol('nestjs-fenced-lock/begins-with-the-application');
const HANDLES = Symbol('nestjs-fenced-lock/handles-requests');

/** Marks a class whose instance begins something with the application, so that it needs one. @param what that is, for messages */
export function beginsWithApplication(prototype: object, what: string): void {
  Reflect.defineMetadata(BEGINS, what, prototype);
}

/** Marks a class with a method whose decorator counts in controllers only. @param what that is, for messages */
export function handlesRequests(prototype: object, what: string): void {
  Reflect.defineMetadata(HANDLES, what, prototype);
}

/** Refuses classes at the start whose code would never run as its decorators say, and without a word. */
@Injectable()
export class StartCheck implements OnApplicationBootstrap {
  constructor(@Inject(ModulesContainer) private readonly modules: ModulesContainer) {}

  /** Not earlier: what a class injects may give it the scope of requests. */
  onApplicationBootstrap(): void {
    for (const { providers, controllers } of this.modules.values()) {
      for (const wrapper of [...providers.values(), ...controllers.values()]) {
        const begun = markOf(wrapper, BEGINS);
        if (begun !== undefined && !wrapper.isDependencyTreeStatic())
          throw new FencedUsageError(
            `${begun} would never run: its class, or something that it injects, has the scope of requests, and there is no request when the application starts. Give it the default scope.`,
          );
      }
      for (const wrapper of providers.values()) {
        const handler = markOf(wrapper, HANDLES);
        if (handler !== undefined)
          throw new FencedUsageError(
            `${handler} counts on handlers of controllers only, and this class is a provider: put @Once on the method.`,
          );
      }
    }
  }
}

function markOf({ metatype }: { readonly metatype: unknown }, mark: symbol): string | undefined {
  const { prototype } = Object(metatype) as { readonly prototype?: object };
  return prototype && (Reflect.getMetadata(mark, prototype) as string | undefined);
}
