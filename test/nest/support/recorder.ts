import type { LoggerService } from '@nestjs/common';
import { eventually } from '../../support/eventually.ts';

/** The log of an application, with the level in front of each line. */
export class Recorder implements LoggerService {
  readonly lines: string[] = [];

  log(message: string): void {
    this.lines.push(`log ${message}`);
  }

  warn(message: string): void {
    this.lines.push(`warn ${message}`);
  }

  error(message: string): void {
    this.lines.push(`error ${message}`);
  }

  get warnings(): string {
    return this.lines.filter((line) => line.startsWith('warn')).join('\n');
  }

  /** Resolves when a line contains `text`. */
  said(text: string): Promise<void> {
    return eventually(() => {
      if (!this.lines.some((line) => line.includes(text))) throw new Error(`not said: ${text}`);
    });
  }
}
