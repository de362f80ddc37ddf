import 'reflect-metadata';
import { describe, expect, it } from '@jest/globals';
import type { Meter } from '@opentelemetry/api';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { readFileSync } from 'node:fs';
import { openTelemetry } from '../../lib/telemetry/index.ts';

const unused = (): never => {
  throw new Error('nothing is collected');
};

describe('the names of metrics', () => {
  const labels = ['lock_template', 'lock_where', 'lock_loss_reason', 'lock_node', 'lock_run_name'];
  const asked = ['dashboard.json', 'alerts.yaml'].map((name) => {
    const text = readFileSync(`docs/observability/${name}`, 'utf8');
    const names = [...text.matchAll(/\block_[a-z_]+/g)].map(([found]) => found);
    return [name, new Set(names.filter((found) => !labels.includes(found)))] as const;
  });

  /** Names as Prometheus has them, by those of OpenTelemetry. */
  function madeNames(): Map<string, string> {
    const made = new Map<string, string>();
    const meter = new MeterProvider().getMeter('test');
    const recording = new Proxy(meter, {
      get: (_meter, method: keyof Meter) => (name: string, options: { unit?: string }) => {
        const suffix = { createCounter: '_total', createHistogram: '_bucket' }[method as string];
        const unit = options.unit === 's' ? '_seconds' : '';
        if (method.startsWith('create'))
          made.set(name, name.replaceAll('.', '_') + unit + (suffix ?? ''));
        return (meter[method] as (...args: unknown[]) => unknown)(name, options);
      },
    });
    openTelemetry({ meter: recording }).observe(unused);
    return made;
  }

  it.each(asked)('that %s asks for are those of the code', (_name, names) => {
    expect(names.size).toBeGreaterThan(5);
    expect([...madeNames().values()]).toEqual(expect.arrayContaining([...names]));
  });

  it('are all on the page of observability, and on the dashboard', () => {
    const page = readFileSync('docs/observability.md', 'utf8');
    const names = [...madeNames().keys()];
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
    expect([...asked[0]![1]].sort()).toEqual([...madeNames().values()].sort());
  });
});
