import { styleText } from 'node:util';
import type { Finding } from './acts.ts';
import { lineOf, type ShowEvent, type ShowLog } from './log.ts';

type Tone = 'good' | 'bad' | 'title' | 'quiet' | 'plain';

const STYLES = {
  good: ['bold', 'green'],
  bad: ['bold', 'red'],
  title: ['bold'],
  quiet: ['dim'],
} as const;

const isColoured = process.stdout.isTTY && !process.env['NO_COLOR'];

function paint(text: string, tone: Tone): string {
  return isColoured && tone !== 'plain' ? styleText([...STYLES[tone]], text) : text;
}

/** Good or bad for those who watch. */
export function toneOf(event: ShowEvent): Tone {
  switch (event.type) {
    case 'told':
      return event.tone ?? 'plain';
    case 'server':
      return event.state === 'up' ? 'good' : 'bad';
    case 'step':
      return event.name === 'rejected' ? 'bad' : event.name === 'booked' ? 'good' : 'quiet';
    case 'worker':
      return event.state === 'stopped' ? 'bad' : 'plain';
    case 'ended':
      return 'bad';
    case 'books':
      return 'plain';
  }
}

/** Prints what happens. @param showsSteps of every booking: a sale without end would fill the screen */
export function printLog(log: ShowLog, showsSteps: boolean): void {
  log.subscribe((event) => {
    const line = lineOf(event);
    if (line === undefined || (event.type === 'step' && !showsSteps)) return;
    const tone = toneOf(event);
    const space = tone === 'title' ? '\n' : '';
    console.log(`${space}${log.time.padStart(8)}  ${paint(line, tone)}`);
  });
}

/** Prints what was promised and what was seen. */
export function printFindings(findings: readonly Finding[]): void {
  const width = Math.max(...findings.map(({ promised }) => promised.length));
  console.log();
  for (const { promised, isKept, observed } of findings)
    console.log(
      `${paint(isKept ? '✓ kept  ' : '✗ BROKEN', isKept ? 'good' : 'bad')}  ${promised.padEnd(width)}  ${observed}`,
    );
  const broken = findings.filter(({ isKept }) => !isKept).length;
  console.log(`\n${findings.length} promises: ${findings.length - broken} kept, ${broken} broken`);
}
