// Some steps take milliseconds. Each is shown long enough to be read, in order, however fast it was.

const SHOWN_MS = 800;
const ORDER = ['begun', 'stopped', 'ran-out', 'seated', 'woken'];

/** Phase that is shown of each seat's story, and since when. */
let shown;

function place({ phase }) {
  const index = ORDER.indexOf(phase);
  return index < 0 ? ORDER.length : index;
}

/** The stories with the phases that are shown now. What was over when the page came is shown as it ended. */
export function paced(stories, nowMs) {
  const before = shown;
  shown = new Map(
    stories.map((story) => [story.seatId, next(story, before?.get(story.seatId), !before, nowMs)]),
  );
  return stories.map((story) => {
    const { index } = shown.get(story.seatId);
    return index === place(story) ? story : { ...story, phase: ORDER[index] };
  });
}

function next(story, last, isFirst, nowMs) {
  const index = place(story);
  if (isFirst || story.phase === 'broken-off') return { index, sinceMs: nowMs };
  if (!last) return { index: 0, sinceMs: nowMs };
  if (last.index >= index || nowMs - last.sinceMs < SHOWN_MS) return last;
  return { index: last.index + 1, sinceMs: nowMs };
}
