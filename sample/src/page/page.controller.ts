import { Controller, Get, NotFoundException, Param, Res } from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { EndlessSale } from '../sale/endless-sale.ts';
import { PageFiles } from './page-files.ts';
import { StateStream } from './state-stream.ts';

/** The page, its parts, and the stream that keeps it alive. */
@Controller()
export class PageController {
  constructor(
    private readonly files: PageFiles,
    private readonly stream: StateStream,
    private readonly sale: EndlessSale,
  ) {}

  @Get()
  page(@Res() response: ServerResponse): void {
    this.file('index.html', response);
  }

  @Get('events')
  events(@Res() response: ServerResponse): void {
    this.stream.open(response);
    this.sale.welcomeViewer();
  }

  @Get(':name')
  file(@Param('name') name: string, @Res() response: ServerResponse): void {
    const file = this.files.find(name);
    if (!file) throw new NotFoundException();
    response.writeHead(200, { 'Content-Type': file.type, 'Cache-Control': 'no-cache' });
    response.end(file.content);
  }
}
