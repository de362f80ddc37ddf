// The page: follows the stream of states, and draws the newest one. Nothing is computed here that the server did not say,
// except how much time has passed since it said it.
import { connectControls, showControls, showVotes } from './controls.js';
import { showLanes } from './lanes.js';
import { showLists } from './lists.js';
import { showStories } from './stories.js';
import { showTable } from './table.js';

/** What moves by itself is redrawn this often. */
const REDRAW_MS = 100;

let state;
let receivedMs = 0;

/** Ms since the server's start, now. */
function nowMs() {
  return state.atMs + (performance.now() - receivedMs);
}

function showConnection(text, isLive) {
  const connection = document.getElementById('connection');
  if (connection.textContent !== text) connection.textContent = text;
  connection.dataset.state = isLive ? 'live' : 'away';
}

function redraw() {
  if (!state || document.hidden) return;
  showTable(state, nowMs());
  showLanes(state, nowMs());
  showStories(state, nowMs());
  showVotes(state, nowMs());
}

const events = new EventSource('events');
events.onmessage = ({ data }) => {
  state = JSON.parse(data);
  receivedMs = performance.now();
  showConnection('Live', true);
  showControls(state);
  showLists(state);
  redraw();
};
events.onerror = () =>
  showConnection('Not connected: the sample has ended, or starts again', false);

connectControls();
setInterval(redraw, REDRAW_MS);
