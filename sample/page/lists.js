// Seats, counts, refusals, double bookings, and the timeline.
import { element, seatName, setText, showNewest } from './elements.js';
import { strongDigits, wholeToken } from './tokens.js';

const byId = (id) => document.getElementById(id);

export function showLists(state) {
  showSeats(state);
  showCounts(state);
  setText(byId('refusal-count'), String(state.refusalCount));
  setText(byId('double-count'), String(state.doubleBookingCount));
  showNewest(byId('refusals'), state.refusals, refusalItem);
  state.refusals.forEach((refusal, index) => showRefund(byId('refusals').children[index], refusal));
  showNewest(byId('doubles'), state.doubleBookings, doubleItem);
  showNewest(byId('timeline'), state.timeline, timelineItem);
}

function showSeats(state) {
  const list = byId('seats');
  setText(byId('evening'), `of evening ${state.evening}`);
  if (list.children.length !== state.seats.length) {
    list.replaceChildren(
      ...state.seats.map(() => element('li', { className: 'seat' }, element('b'), element('span'))),
    );
  }
  state.seats.forEach((seat, index) => showSeat(list.children[index], seat, state.holdings));
}

function showSeat(item, { id, customers }, holdings) {
  const holding = holdings.findLast(
    ({ seatId, endedMs, lostAtMs }) =>
      seatId === id && endedMs === undefined && lostAtMs === undefined,
  );
  const kind =
    customers.length > 1 ? 'double' : customers.length === 1 ? 'sold' : holding ? 'held' : 'free';
  item.dataset.state = kind;
  item.dataset.seat = id;
  setText(item.firstChild, kind === 'double' ? `${seatName(id)} twice` : seatName(id));
  const texts = {
    double: customers.join(' + '),
    sold: customers[0],
    held: `${holding?.customer} …`,
    free: '',
  };
  setText(item.lastChild, texts[kind]);
}

/** Failed bookings, by what failed. */
const FAILURES = {
  STALE_TOKEN: 'write rejected',
  LOCK_LOST: 'lock lost',
  LOCK_BUSY: 'gave up waiting',
  QUORUM_UNAVAILABLE: 'no majority',
};

function showCounts({ stage }) {
  showCount('booked', stage.booked);
  showCount('came too late', stage.taken);
  showCount('refunded', stage.refunded);
  for (const [code, count] of Object.entries(stage.failures))
    showCount(FAILURES[code] ?? code, count);
}

function showCount(name, count) {
  const id = `count-${name.replaceAll(' ', '-')}`;
  if (!byId(id)) {
    const parts = [element('dt', { textContent: name }), element('dd', { id })];
    byId('counts').append(element('div', {}, ...parts));
  }
  setText(byId(id), String(count));
}

function refusalItem({ seatId, customer, worker, token, newerToken }) {
  const strong = strongDigits([token, newerToken ?? token]);
  return element(
    'li',
    {},
    `${seatName(seatId)}: the late write of ${customer} (worker ${worker}, token `,
    ...wholeToken(token, strong),
    ') was rejected, the database had seen ',
    ...(newerToken ? wholeToken(newerToken, strong) : ['a newer token']),
    '. ',
    element('span', { className: 'refund' }),
  );
}

function showRefund(item, { customer, isRefunded }) {
  setText(item.lastChild, isRefunded ? `${customer} is refunded.` : '');
}

function doubleItem({ seatId, customers }) {
  const [last, ...others] = [...customers].reverse();
  const text = `${seatName(seatId)} belongs to ${others.reverse().join(', ')} and to ${last}: both have paid, and a ticket.`;
  return element('li', { textContent: text });
}

function timelineItem({ atMs, text, tone }) {
  const time = element('time', { textContent: `${(atMs / 1000).toFixed(1)} s` });
  return element('li', { dataset: { tone } }, time, element('span', { textContent: text }));
}
