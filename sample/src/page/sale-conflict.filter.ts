import { Catch, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { SaleConflict } from '../sale/sale-conflict.ts';

/** 409, with the reason. */
@Catch(SaleConflict)
export class SaleConflictFilter implements ExceptionFilter<SaleConflict> {
  catch({ message }: SaleConflict, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<ServerResponse>();
    response.writeHead(409, { 'Content-Type': 'application/json; charset=utf-8' });
    response.end(JSON.stringify({ message }));
  }
}
