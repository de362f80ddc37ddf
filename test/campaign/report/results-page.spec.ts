import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { SCHEDULES } from '../schedules/index.ts';
import { COLUMNS, scheduleItem } from './results-page.ts';

const page = readFileSync('docs/fault-campaign.md', 'utf8');

describe('the page with the results of the campaign', () => {
  it('explains the columns as a new run would', () => expect(page).toContain(COLUMNS));

  it.each(SCHEDULES)('lists the schedule "$name" in lines that fit, word for word', (schedule) => {
    const lines = scheduleItem(schedule).split('\n');
    expect(lines.filter((line) => line.length > 130)).toEqual([]);
    expect(lines.map((line) => line.slice(2)).join(' ')).toBe(
      `**${schedule.name}**: ${schedule.what}`,
    );
  });

  it('has lines that fit, outside of its tables', () => {
    const prose = page.split('\n').filter((line) => !line.startsWith('|'));
    expect(prose.filter((line) => line.length > 130)).toEqual([]);
  });
});
