// The last seconds of each worker's locks, drawn by hand: one lane per worker, time from left to right.
import { seatName } from './elements.js';

const SVG = 'http://www.w3.org/2000/svg';
const LABEL_WIDTH = 66;
const LANE_HEIGHT = 44;
const BAR_HEIGHT = 28;
/** Room for validity that lies ahead. */
const AHEAD_MS = 2200;
const MARKS = { booked: '✓', refused: '✕', failed: '✕' };
/** Room on both sides of a label. */
const PADDING = 5;

const svg = document.getElementById('lanes');
const title = svg.querySelector('title');

function make(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

export function showLanes(state, nowMs) {
  const { width } = svg.getBoundingClientRect();
  const height = state.stage.workers.length * LANE_HEIGHT + 14;
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  // A phone shows fewer seconds, not smaller ones.
  const behindMs = width < 480 ? 6000 : 12_000;
  const scale = (width - LABEL_WIDTH) / (behindMs + AHEAD_MS);
  const xAt = (ms) =>
    Math.min(width - 1, Math.max(LABEL_WIDTH, LABEL_WIDTH + (ms - nowMs + behindMs) * scale));

  const parts = state.stage.workers.flatMap((worker, index) => lane(worker, index, width));
  for (const holding of state.holdings) {
    const next = state.holdings.find(
      ({ worker, fromMs }) => worker === holding.worker && fromMs > holding.fromMs,
    );
    const freeMs = next?.fromMs ?? Infinity;
    parts.push(...bars({ ...holding, freeMs }, nowMs, nowMs - behindMs, xAt));
  }
  const x = xAt(nowMs);
  parts.push(make('line', { class: 'now', x1: x, x2: x, y1: 0, y2: height - 14 }));
  parts.push(make('text', { class: 'quiet', x, y: height - 2, 'text-anchor': 'middle' }, 'now'));
  svg.replaceChildren(title, stalePattern(), ...parts);
}

function lane(worker, index, width) {
  const y = index * LANE_HEIGHT + LANE_HEIGHT / 2;
  return [
    make('line', { class: 'rail', x1: LABEL_WIDTH, x2: width, y1: y, y2: y }),
    make('text', { x: 0, y: y - (worker === 'working' ? -4 : 3) }, `worker ${index + 1}`),
    ...(worker === 'working' ? [] : [make('text', { class: 'bad', x: 0, y: y + 12 }, worker)]),
  ];
}

function bars(holding, nowMs, firstMs, xAt) {
  const { worker, fromMs, endedMs, lostAtMs, leaseUntilMs, freeMs, outcome } = holding;
  const untilMs = endedMs ?? nowMs;
  if (untilMs < firstMs) return [];
  const y = (worker - 1) * LANE_HEIGHT + (LANE_HEIGHT - BAR_HEIGHT) / 2;
  const bar = (from, until, tone) => {
    const x = xAt(from);
    const width = Math.max(2, xAt(until) - x);
    return make('rect', { x, y, width, height: BAR_HEIGHT, rx: 3, 'data-tone': tone });
  };
  const parts = [
    bar(fromMs, Math.min(lostAtMs ?? untilMs, untilMs), outcome === 'open' ? 'held' : outcome),
  ];
  if (lostAtMs !== undefined) parts.push(bar(lostAtMs, untilMs, 'stale'));
  else if (endedMs === undefined && leaseUntilMs > nowMs)
    parts.push(bar(nowMs, leaseUntilMs, 'ahead'));
  // A label leaves the hatched part alone, and a bar that begins above this one.
  const solidUntil = xAt(Math.min(lostAtMs ?? untilMs, untilMs, freeMs));
  const text = label(holding, solidUntil - xAt(fromMs) - 2 * PADDING);
  if (text) {
    parts.push(make('text', { x: xAt(fromMs) + PADDING, y: y + BAR_HEIGHT / 2 + 4 }, text));
  }
  return parts;
}

const measure = document.createElement('canvas').getContext('2d');
measure.font = `12px ${getComputedStyle(svg).fontFamily}`;

/** The longest text that fits into this much room, or none: letters are never squeezed and never leave their bar. */
function label({ seatId, customer, outcome }, room) {
  const mark = MARKS[outcome] ?? '';
  const seat = seatName(seatId);
  return [`${seat} ${customer} ${mark}`, `${seat} ${mark}`, seat, mark]
    .map((text) => text.trim())
    .find((text) => text !== '' && measure.measureText(text).width <= room);
}

function stalePattern() {
  const pattern = make('pattern', {
    id: 'stale',
    width: 6,
    height: 6,
    patternUnits: 'userSpaceOnUse',
  });
  pattern.append(make('rect', { width: 6, height: 6 }), make('path', { d: 'M0 6 L6 0' }));
  return pattern;
}
