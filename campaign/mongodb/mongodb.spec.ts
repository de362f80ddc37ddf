import { afterAll, expect, it } from '@jest/globals';
import {
  ConsumerProject,
  programsOf,
  removeProjects,
  runTests,
} from '../../test/docs/consumer-project.ts';

const PAGE = 'docs/fencing/mongodb.md';

afterAll(removeProjects);

it(`the fence of ${PAGE} passes the conformance kit on MONGODB_URL`, async () => {
  const packages = ['campaign/stores/node_modules'];
  const project = await ConsumerProject.write(programsOf(PAGE), 'module', packages);
  expect(await project.compile()).toBe('');
  await expect(runTests(project, 'mongo-fence.spec.ts')).resolves.toBe(1);
}, 600_000);
