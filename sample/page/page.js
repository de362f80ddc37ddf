// The page: follows the stream of states, and draws the newest one. Nothing is computed here that the server did not say,
// except how much time has passed since it said it.
import { clearAnswer, connectControls, showControls, showVotes } from './controls.js';
import { showLanes } from './lanes.js';
import { showLists } from './lists.js';
import { showStories } from './stories.js';
import { showTable } from './table.js';

/** Interval at which what moves by itself is redrawn. */
const REDRAW_MS = 100;

/** The server sends its state twice in this time, also when nothing happens. */
const LONGEST_SILENCE_MS = 10_000;

let state;
let receivedMs = 0;
/** Since when nothing is known: nothing that is shown goes on. */
let awayMs;

/** Ms since the server's start, now. */
function nowMs() {
  return state.atMs + ((awayMs ?? performance.now()) - receivedMs);
}

function away(text) {
  awayMs ??= performance.now();
  showConnection(text, false);
}

function showConnection(text, isLive) {
  const connection = document.getElementById('connection');
  if (connection.textContent !== text) connection.textContent = text;
  connection.dataset.state = isLive ? 'live' : 'away';
}

function redraw() {
  if (!state || document.hidden) return;
  if (awayMs === undefined && performance.now() - receivedMs > LONGEST_SILENCE_MS)
    away('No news: the sample is stopped, or very slow');
  showTable(state, nowMs());
  showLanes(state, nowMs());
  showStories(state, nowMs());
  showVotes(state, nowMs());
}

const events = new EventSource('events');
events.onmessage = ({ data }) => {
  state = JSON.parse(data);
  receivedMs = performance.now();
  awayMs = undefined;
  showConnection('Live', true);
  showControls(state);
  showLists(state);
  redraw();
};
events.onerror = () => away('Not connected: the sample has ended, or starts again');
// Answer that a button gave while the server was away is over.
events.onopen = () => clearAnswer();

connectControls();
setInterval(redraw, REDRAW_MS);
