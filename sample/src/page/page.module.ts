import { Module, type DynamicModule } from '@nestjs/common';
import { RedlockModule } from 'nestjs-fenced-lock';
import { EndlessSale } from '../sale/endless-sale.ts';
import { NodeControls } from '../sale/node-controls.ts';
import { ControlsController } from './controls.controller.ts';
import { PageController } from './page.controller.ts';
import { PageFiles } from './page-files.ts';
import { StateStream } from './state-stream.ts';

/** Parts that the page shows and changes. */
export interface PageParts {
  readonly sale: EndlessSale;
  readonly nodes: NodeControls;
  readonly stream: StateStream;
  readonly files: PageFiles;
}

/** The application of the page. It takes no locks: it asks the nodes about those of the workers. */
@Module({})
export class PageModule {
  static register({ sale, nodes, stream, files }: PageParts): DynamicModule {
    const { cluster, lockKeyPrefix } = sale.stage;
    return {
      module: PageModule,
      imports: [
        RedlockModule.forRoot({
          nodes: cluster.urls,
          // The same as the workers'.
          ttl: '2s',
          keyPrefix: lockKeyPrefix,
          startupTimeout: '20s',
          waitForVotes: false,
        }),
      ],
      controllers: [ControlsController, PageController],
      providers: [
        { provide: EndlessSale, useValue: sale },
        { provide: NodeControls, useValue: nodes },
        { provide: StateStream, useValue: stream },
        { provide: PageFiles, useValue: files },
      ],
    };
  }
}
