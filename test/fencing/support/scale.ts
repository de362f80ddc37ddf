/** FENCE_STRESS multiplies sessions and runs: 1 in the campaign, a fifth of it in `npm test`. */
export const SCALE = Number(process.env.FENCE_STRESS ?? 1);
