// The page: follows the stream of states, and draws the newest one. What the server did not say is not shown.

/** The server sends its state twice in this time, also when nothing happens. */
const LONGEST_SILENCE_MS = 10_000;
const WORKER_STATES = { working: 'no customer, no lock', stopped: '◌ stopped', gone: '✖ gone' };
const SERVER_STATES = { up: '● up', killed: '✖ killed' };
/** How many steps of a story are done. */
const DONE = { begun: 0, stopped: 1, 'ran-out': 2, seated: 3, rejected: 4, 'sold-twice': 4 };

const byId = (id) => document.getElementById(id);
const seatName = (seat) => seat.split('/')[0];

/** Text that stays the same is left alone, so that screen readers and selections are too. */
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

function setTone(target, tone) {
  if (tone) target.dataset.tone = tone;
  else delete target.dataset.tone;
}

function make(name, className = '', ...children) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}

/** `…497 097 177`: tokens have 16 digits, and neighbours share the first ones. */
function shortToken(token) {
  return token ? `…${token.slice(-9).replace(/\B(?=(\d{3})+$)/g, '\u202f')}` : '–';
}

/** Makes a list as long as the items are, and shows each of them. */
function showList(list, items, makeItem, showItem) {
  while (list.children.length < items.length) list.append(makeItem(list.children.length));
  items.forEach((item, index) => showItem(list.children[index], item, index));
}

function showStories({ stories, isPlaying }) {
  byId('play').setAttribute('aria-disabled', String(isPlaying));
  for (const [fenced, scene] of scenes)
    showScene(
      scene,
      stories.find((story) => story.fenced === fenced),
      fenced,
    );
}

function showScene(scene, story, fenced) {
  scene.dataset.phase = story?.phase ?? 'idle';
  const next = story?.successor.customer ?? 'another one';
  const last = `late write: ${fenced ? 'rejected' : 'accepted'}`;
  const steps = ['a worker is stopped', 'its lock runs out', `${next} has the seat`, last];
  const done = DONE[story?.phase] ?? 0;
  steps.forEach((text, index) => {
    const item = scene.querySelector('.steps').children[index];
    setText(item, text);
    item.dataset.state = index < done ? 'done' : 'ahead';
    if (index === done - 1) item.setAttribute('aria-current', 'step');
    else item.removeAttribute('aria-current');
  });
  showActor(scene.querySelector('.holder'), story?.holder, holderText(story), holderTone(story));
  const isSeated = done > 2;
  const nextTone = story && (isSeated ? 'good' : 'held');
  showActor(scene.querySelector('.successor'), story?.successor, successorText(story), nextTone);
  const [, remembers, floor] = scene.querySelector('.database').children;
  setText(remembers, fenced ? 'remembers' : 'compares nothing');
  setText(floor, shortToken(story?.floor));
  const ends = { rejected: 'good', 'sold-twice': 'bad' };
  const end = ends[story?.phase];
  const [late, write] = scene.querySelectorAll('.write');
  setText(late, story?.phase === 'rejected' ? '→✗' : '→');
  setTone(late, end && 'bad');
  setTone(write, isSeated && 'good');
  const verdict = scene.querySelector('.verdict');
  setText(verdict, story ? verdictText(story) : 'Not played yet.');
  setTone(verdict, end);
}

function showActor(figure, actor, text, tone) {
  const [name, does, token] = figure.children;
  setText(name, actor ? `Worker ${actor.worker}` : 'Worker');
  setText(does, text);
  setText(token, shortToken(actor?.token));
  setTone(figure, tone);
}

function holderTone(story) {
  if (!story) return undefined;
  if (['begun', 'broken-off'].includes(story.phase)) return 'held';
  return DONE[story.phase] === 4 ? 'bad' : 'warn';
}

function holderText(story) {
  if (!story) return 'will be stopped';
  const { customer } = story.holder;
  if (story.phase === 'begun') return `${customer} pays`;
  if (story.phase === 'rejected')
    return `${customer} ${story.isRefunded ? 'refunded' : 'rejected'}`;
  return story.phase === 'sold-twice' ? `${customer} has a ticket` : 'stopped';
}

function successorText(story) {
  if (!story) return 'wants the same seat';
  const { customer } = story.successor;
  const texts = { begun: '', stopped: 'waits', 'ran-out': 'pays', 'broken-off': '' };
  return `${customer} ${texts[story.phase] ?? 'has a ticket'}`;
}

function verdictText({ phase, seat, holder, successor, floor, isRefunded, reason }) {
  const name = seatName(seat);
  switch (phase) {
    case 'begun':
      return `${name}: ${holder.customer} takes the lock, and pays.`;
    case 'stopped':
      return `${name}: worker ${holder.worker} is stopped, and its lock runs out.`;
    case 'ran-out':
      return `${name}: ${successor.customer} has the lock, and pays.`;
    case 'seated':
      return `${name}: ${successor.customer} has the seat, and worker ${holder.worker} is about to wake up.`;
    case 'rejected':
      return `✓ ${name}: ${shortToken(holder.token)} < ${shortToken(floor)}, rejected${isRefunded ? `, and ${holder.customer} is refunded` : ''}.`;
    case 'sold-twice':
      return `✗ ${name} is sold twice: to ${successor.customer} and to ${holder.customer}.`;
    default:
      return `${name}: broken off, ${reason}.`;
  }
}

function showSeat(item, { id, customers }, workers) {
  const [holder] = workers.flatMap(({ holding }) => (holding?.seat === id ? [holding] : []));
  const isTwice = customers.length > 1;
  const state = isTwice ? 'double' : customers.length > 0 ? 'sold' : holder ? 'held' : 'free';
  item.dataset.state = state;
  setTone(item, { double: 'bad', sold: 'good', held: 'held' }[state]);
  setText(item.firstChild, isTwice ? `${seatName(id)} twice` : seatName(id));
  setText(item.lastChild, customers.join(' + ') || (holder ? `${holder.customer} …` : ''));
}

function showWorker(item, { state, holding }, index) {
  item.dataset.state = state;
  const [name, does, token] = item.children;
  setText(name, `Worker ${index + 1}${state === 'stopped' && holding ? ' ◌ stopped' : ''}`);
  setText(
    does,
    holding ? `${holding.customer}: lock of ${seatName(holding.seat)}` : WORKER_STATES[state],
  );
  setText(token, holding ? `token ${shortToken(holding.token)}` : '');
}

function makeServer(index) {
  const button = make('button');
  button.type = 'button';
  connect(button, () => `servers/${index + 1}/${button.dataset.action}`);
  return make('li', 'server', make('b', '', `Server ${index + 1}`), make('span'), button);
}

function showServer(item, server, index, canKill) {
  const [, text, button] = item.children;
  item.dataset.state = server;
  setText(text, SERVER_STATES[server]);
  button.dataset.action = server === 'up' ? 'kill' : 'start';
  setText(button, server === 'up' ? 'Kill' : 'Start again');
  button.setAttribute('aria-label', `${button.textContent}: server ${index + 1}`);
  button.setAttribute('aria-disabled', String(!canKill));
}

/** The newest line is the first. Lines that are there are kept. */
function showLog(list, lines) {
  const newestId = Number(list.firstChild?.dataset.id ?? 0);
  for (const { id, time, text, tone } of [...lines].reverse()) {
    if (id <= newestId) continue;
    const item = make('li', '', make('time', '', time), make('span', '', text));
    Object.assign(item.dataset, { id, tone });
    list.prepend(item);
  }
  while (list.children.length > lines.length) list.lastChild.remove();
}

function show(state) {
  showStories(state);
  const seat = () => make('li', 'seat', make('b'), make('span'));
  showList(byId('seats'), state.seats, seat, (item, each) => showSeat(item, each, state.workers));
  const worker = () => make('li', 'worker', make('b'), make('span'), make('span', 'token'));
  showList(byId('workers'), state.workers, worker, showWorker);
  showList(byId('servers'), state.servers, makeServer, (item, server, index) =>
    showServer(item, server, index, state.canKill),
  );
  showLog(byId('log'), state.lines);
}

function showConnection(text, isLive) {
  setText(byId('connection'), text);
  setTone(byId('connection'), isLive ? 'good' : 'warn');
}

function showNote(text) {
  setText(byId('note'), text);
  byId('note').hidden = text === '';
}

/** Buttons are never disabled, which would take the focus away from the keyboard, but say that they do nothing. */
function connect(button, path) {
  button.addEventListener('click', async () => {
    if (button.getAttribute('aria-disabled') === 'true') return;
    try {
      const signal = AbortSignal.timeout(LONGEST_SILENCE_MS);
      const response = await fetch(path(), { method: 'POST', signal });
      showNote(response.ok ? '' : await response.text());
    } catch {
      showNote('The sample did not answer.');
    }
  });
}

const { content } = document.querySelector('template');
const scenes = [true, false].map((fenced) => {
  const scene = content.cloneNode(true).firstElementChild;
  scene.dataset.fenced = String(fenced);
  scene.querySelector('h3').textContent = fenced ? 'With the fence' : 'Without the fence';
  byId('scenes').append(scene);
  return [fenced, scene];
});

connect(byId('play'), () => 'play');
const events = new EventSource('events');
let silence;
events.onmessage = ({ data }) => {
  clearTimeout(silence);
  silence = setTimeout(
    () => showConnection('No news: the sample is stopped, or very slow'),
    LONGEST_SILENCE_MS,
  );
  showConnection('Live', true);
  show(JSON.parse(data));
};
events.onerror = () => showConnection('Not connected: the sample has ended, or starts again');
// What a button said while the server was away is over.
events.onopen = () => showNote('');
