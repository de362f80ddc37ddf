const { default: Sequencer } = require('@jest/test-sequencer');

/** Jest begins with the largest files. The longest run is that of a small one, which would be alone at the end. */
module.exports = class extends Sequencer {
  sort(tests) {
    const isLongest = ({ path }) => path.endsWith('/mutants.spec.ts');
    const sorted = super.sort(tests);
    return [...sorted.filter(isLongest), ...sorted.filter((test) => !isLongest(test))];
  }
};
