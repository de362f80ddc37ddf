const realNow = Date.now;
let skewMs = 0;
Date.now = () => realNow() + skewMs;

/** The wall clock of this whole process, as all its code sees it, is wrong by so much from now on. */
export function setWallClockSkew(ms: number): void {
  skewMs = Math.round(ms);
}
