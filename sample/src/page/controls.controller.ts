import {
  BadRequestException,
  Controller,
  HttpCode,
  Param,
  ParseEnumPipe,
  ParseIntPipe,
  Post,
  UseFilters,
} from '@nestjs/common';
import { EndlessSale } from '../sale/endless-sale.ts';
import { NODE_ACTIONS, NodeControls, type NodeAction } from '../sale/node-controls.ts';
import { SaleConflictFilter } from './sale-conflict.filter.ts';

/** The buttons. What they did is seen in the stream of states, not in the answers: 204, or 409 with the reason. */
@Controller('controls')
@UseFilters(SaleConflictFilter)
export class ControlsController {
  constructor(
    private readonly sale: EndlessSale,
    private readonly nodes: NodeControls,
  ) {}

  @Post('nodes/:number/:action')
  @HttpCode(204)
  async changeNode(
    @Param('number', ParseIntPipe) number: number,
    @Param(
      'action',
      new ParseEnumPipe(Object.fromEntries(NODE_ACTIONS.map((name) => [name, name]))),
    )
    action: NodeAction,
  ): Promise<void> {
    await this.nodes.apply(number, action);
  }

  /** Answers at once: the freeze takes as long as a lock lives, and longer. */
  @Post('holder/freeze')
  @HttpCode(204)
  freezeHolder(): void {
    this.sale.beginFreeze();
  }

  /** The same story with the fence and without, at once. */
  @Post('holder/freeze-both')
  @HttpCode(204)
  freezeBoth(): void {
    this.sale.beginFreeze([true, false]);
  }

  @Post('fence/:state')
  @HttpCode(204)
  switchFence(@Param('state') state: string): void {
    if (state !== 'on' && state !== 'off') throw new BadRequestException("'on' or 'off'");
    this.sale.switchFence(state === 'on');
  }
}
