import { afterAll, describe, expect, it } from '@jest/globals';
import { ConsumerProject, programsOf, removeProjects } from '../docs/consumer-project.ts';
import { PAGES } from '../docs/pages.ts';

/** Declarations of a test runner. */
const TEST_RUNNER = `
import { expect } from 'expect';
export const tests: (() => unknown)[] = [];
const it = (_name: string, test: () => unknown) => tests.push(test);
const none = () => undefined;
Object.assign(globalThis, { expect, it, beforeEach: none, afterEach: none });
`;

/** The programs of packages that only campaign/stores has: specs of the campaign run them, from their pages. */
const NOT_INSTALLED =
  /^docs\/(?:internals\/own-fence\/(?:postgres-js|sequelize)|fencing\/mongodb\/mongo)-fence(?:\.spec)?\.ts$/;

/** Programs of all pages, in a folder for each page. */
function allPrograms(format: 'module' | 'commonjs'): Record<string, string> {
  const programs = PAGES.flatMap(({ path }) =>
    Object.entries(programsOf(path, [], format)).map(([name, code]) => [
      `${path.replace(/\.md$/, '')}/${name}`,
      code,
    ]),
  );
  return Object.fromEntries(programs);
}

afterAll(removeProjects);

describe.each(['module', 'commonjs'] as const)(
  'a project of type "%s" that installed the tarball',
  (format) => {
    it('compiles and loads every program of every page', async () => {
      const programs = allPrograms(format);
      const names = Object.keys(programs).filter((name) => !NOT_INSTALLED.test(name));
      const loads = names.map(
        (name) => `await import('./${name.replace(/\.ts$/, '.js')}'); console.log('${name}');`,
      );
      const project = await ConsumerProject.write(
        {
          ...programs,
          'test-runner.ts': TEST_RUNNER,
          'load.ts': `import './test-runner.js';\nvoid (async () => {\n${loads.join('\n')}\n})();\n`,
        },
        format,
      );
      expect(await project.compile()).toBe('');
      expect((await project.run('load.ts')).trim().split('\n')).toEqual(names);
      expect(names.length).toBeGreaterThan(10);
    });
  },
);
