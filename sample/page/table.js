// Row per worker: what it holds, or believes to hold.
import { element, seatName, setAttribute, setText } from './elements.js';
import { showWholeToken, strongDigits } from './tokens.js';

/** The ttl of the sample's locks: a full bar. */
const FULL_MS = 2000;

const WORKER_STATES = { working: 'working', stopped: '◌ stopped', gone: '✖ gone' };

export function showTable(state, nowMs) {
  const body = document.getElementById('holders');
  const { workers } = state.stage;
  if (body.children.length !== workers.length) {
    body.replaceChildren(...workers.map((_, index) => row(index + 1)));
  }
  const strong = strongDigits(
    state.holdings.filter(({ endedMs }) => endedMs === undefined).map(({ token }) => token),
  );
  workers.forEach((worker, index) => {
    const holding = state.holdings.findLast(
      (each) => each.worker === index + 1 && each.endedMs === undefined,
    );
    const asked = state.asked.findLast(
      (each) => each.worker === index + 1 && (!holding || each.customer === holding.customer),
    );
    const { addresses } = state;
    showRow(body.children[index], { worker, holding, asked, addresses, strong }, nowMs);
  });
}

function row(number) {
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, `Worker ${number}`, element('span', { className: 'minor' })),
    element('td', {}, element('span'), element('span', { className: 'minor' })),
    element('td'),
    element('td'),
    element('td', {}, element('span'), element('span', { className: 'bar', ariaHidden: 'true' })),
    element('td', { className: 'idle', colSpan: 4 }),
  );
}

function showRow({ children }, { worker, holding, asked, addresses, strong }, nowMs) {
  const [name, seat, token, nodes, validity, idle] = children;
  name.lastChild.dataset.state = worker;
  setText(name.lastChild, WORKER_STATES[worker]);
  for (const cell of [seat, token, nodes, validity]) cell.hidden = !holding;
  idle.hidden = holding !== undefined;
  setText(idle, idleText(worker, asked));
  if (!holding) return;
  setText(seat.firstChild, seatName(holding.seatId));
  setText(seat.lastChild, customerText(asked, holding));
  showWholeToken(token, holding.token, strong);
  const isKnown = (holding.leaseUntilMs ?? holding.lostAtMs) !== undefined;
  setText(nodes, isKnown ? votes(holding, addresses) : 'asking…');
  setAttribute(nodes, 'aria-label', `${holding.nodes.length} of ${addresses.length} servers`);
  showValidity(validity, holding, nowMs);
}

function idleText(worker, asked) {
  if (worker === 'gone') return 'has ended';
  return asked ? `${asked.customer} waits for ${seatName(asked.seatId)}` : 'no customer, no lock';
}

function customerText(asked, holding) {
  return `${holding.customer}${holding.isPaid ? ' has paid' : ''}${asked?.fenced === false ? ', no fence' : ''}`;
}

/** Mark per node, in their order: which of them have the lock. */
function votes({ nodes }, addresses) {
  const marks = addresses.map((address) => (nodes.includes(address) ? '●' : '○')).join('');
  return `${marks} ${nodes.length}/${addresses.length}`;
}

function showValidity({ firstChild: text, lastChild: bar }, holding, nowMs) {
  const { leaseUntilMs, lostAtMs } = holding;
  const remainingMs = Math.max(0, (leaseUntilMs ?? 0) - nowMs);
  const isOver = lostAtMs !== undefined;
  text.className = isOver ? 'over' : '';
  setText(text, validityText(leaseUntilMs, remainingMs, isOver));
  bar.hidden = leaseUntilMs === undefined || isOver;
  bar.style.setProperty('--share', `${Math.min(100, (100 * remainingMs) / FULL_MS)}%`);
}

function validityText(leaseUntilMs, remainingMs, isOver) {
  if (isOver) return 'ran out';
  return leaseUntilMs === undefined ? 'asking…' : `${(remainingMs / 1000).toFixed(1)} s`;
}
