import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { RedlockModuleOptions } from './redlock-module-options.ts';
import { REDLOCK_MODULE_OPTIONS } from './redlock.constants.ts';

/** `forRoot` and `forRootAsync`, global unless `isGlobal: false`. */
export const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<RedlockModuleOptions>({
  moduleName: 'Redlock',
  optionsInjectionToken: REDLOCK_MODULE_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedlockOptions')
  .setExtras({ isGlobal: true as boolean }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal,
  }))
  .build();
