import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';

const BEGINS = Symbol('nestjs-fenced-lock/begins-with-the-application');

/** Marks a class whose instance begins something with the application, so that it needs one. @param where that is, for messages */
export function beginsWithApplication(prototype: object, where: string): void {
  Reflect.defineMetadata(BEGINS, where, prototype);
}

/** Refuses what would never begin: Nest builds a class of the scope of requests for each of them, and none for the application. */
@Injectable()
export class ScopeCheck implements OnApplicationBootstrap {
  constructor(@Inject(ModulesContainer) private readonly modules: ModulesContainer) {}

  /** Not earlier: what a class injects may give it the scope of requests. */
  onApplicationBootstrap(): void {
    for (const { providers, controllers } of this.modules.values()) {
      for (const wrapper of [...providers.values(), ...controllers.values()]) {
        const { prototype } = Object(wrapper.metatype) as { readonly prototype?: object };
        if (!prototype || wrapper.isDependencyTreeStatic()) continue;
        const where = Reflect.getMetadata(BEGINS, prototype) as string | undefined;
        if (where === undefined) continue;
        throw new FencedUsageError(
          `${where} would never run: its class, or something that it injects, has the scope of requests, and there is no request when the application starts. Give it the default scope.`,
        );
      }
    }
  }
}
