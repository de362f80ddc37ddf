// Work of a button: the holder that is stopped, its successor, and the database between them, once for each kind of story.
import { paced } from './pace.js';
import { element, seatName, setAttribute, setText } from './elements.js';
import { shortToken, strongDigits } from './tokens.js';

/** Number of steps that are done. */
const DONE = {
  begun: 0,
  stopped: 1,
  'ran-out': 2,
  seated: 3,
  woken: 4,
  refused: 5,
  'sold-twice': 5,
  'broken-off': 0,
};
const STEPS = 5;

const scenes = new Map(
  [...document.querySelectorAll('.scene')].map((scene) => [scene.dataset.fenced === 'true', scene]),
);
for (const scene of scenes.values()) {
  scene
    .querySelector('.steps')
    .append(...Array.from({ length: STEPS }, () => element('li', {}, element('span'))));
}

export function showStories(live, nowMs) {
  const state = { ...live, stories: paced(live.stories, nowMs) };
  for (const [fenced, scene] of scenes) {
    const story = state.stories.find((each) => each.fenced === fenced);
    showScene(scene, fenced, story, state, nowMs);
  }
  setText(document.getElementById('story'), currentStep(state));
}

function showScene(scene, fenced, story, state, nowMs) {
  setAttribute(scene, 'data-phase', story?.phase ?? 'idle');
  showSteps(scene.querySelector('.steps'), stepTexts(story, fenced), story);
  const tokens = [story?.holder.token, story?.successor.token].filter(Boolean);
  const strong = strongDigits(tokens);
  const [holder, successor] = scene.querySelectorAll('.actor');
  showActor(holder, 'Worker A', story?.holder, holderText(story, state, nowMs), strong);
  showActor(successor, 'Worker B', story?.successor, successorText(story), strong);
  const memory = scene.querySelector('.database');
  setText(memory.children[1], memoryText(story, fenced));
  setText(memory.children[2], fenced && story ? shortToken(story.floor, strong) : '–');
  showVerdict(scene, story, strong);
}

function showSteps(list, texts, story) {
  const done = story ? DONE[story.phase] : 0;
  texts.forEach((text, index) => {
    const item = list.children[index];
    setText(item.firstChild, text);
    const isNow = story !== undefined && index === done - 1;
    item.dataset.state = index < done ? (isNow ? 'now' : 'done') : 'ahead';
    if (isNow) item.setAttribute('aria-current', 'step');
    else item.removeAttribute('aria-current');
  });
}

function stepTexts(story, fenced) {
  const holder = story ? `worker ${story.holder.worker}` : 'holder';
  const next = story?.successor.customer ?? 'another';
  return [
    `${holder} stopped`,
    'lock ran out',
    `${next} has the seat`,
    'wakes up, writes',
    fenced ? 'rejected' : 'sold twice',
  ];
}

function showActor(actor, idleName, role, text, strong) {
  const [name, doing, token] = actor.children;
  setText(name, role ? `Worker ${role.worker}` : idleName);
  setText(doing, text);
  setText(token, shortToken(role?.token, strong));
}

function holderText(story, state, nowMs) {
  if (!story) return 'holds the lock';
  const { customer, token } = story.holder;
  switch (story.phase) {
    case 'begun':
      return `${customer} pays`;
    case 'stopped': {
      const holding = state.holdings.findLast((each) => each.token === token);
      const leftMs = Math.max(0, (holding?.leaseUntilMs ?? nowMs) - nowMs);
      return `stopped, lock ${(leftMs / 1000).toFixed(1)} s`;
    }
    case 'ran-out':
    case 'seated':
      return 'stopped, no lock';
    case 'woken':
      return `writes ${customer}`;
    case 'refused':
      return story.isRefunded ? `${customer} refunded` : `${customer} rejected`;
    case 'sold-twice':
      return `${customer} has a ticket`;
    default:
      return customer;
  }
}

function successorText(story) {
  if (!story) return 'wants the same seat';
  const { customer } = story.successor;
  switch (story.phase) {
    case 'begun':
    case 'broken-off':
      return customer;
    case 'stopped':
      return `${customer} waits`;
    case 'ran-out':
      return `${customer} pays`;
    default:
      return `${customer} has a ticket`;
  }
}

function memoryText(story, fenced) {
  if (!fenced) return 'compares nothing';
  return story ? `${seatName(story.seatId)}: remembers` : 'remembers the highest token';
}

function showVerdict(scene, story, strong) {
  const [numbers, words] = scene.querySelector('.verdict').children;
  const short = (token) => shortToken(token, strong);
  const [old, newer] = [short(story?.holder.token), short(story?.floor)];
  setText(numbers, story?.phase === 'refused' ? `${old} < ${newer} ✗` : '');
  setText(words, verdictText(story));
}

function verdictText(story) {
  switch (story?.phase) {
    case undefined:
      return 'Not played yet.';
    case 'refused':
      return `✓ rejected${story.isRefunded ? `, ${story.holder.customer} is refunded` : ''}`;
    case 'sold-twice':
      return `✗ ${seatName(story.seatId)} is sold twice: to ${story.successor.customer} and to ${story.holder.customer}`;
    case 'seated':
      return `✓ ${story.successor.customer} has ${seatName(story.seatId)}`;
    case 'broken-off':
      return `Broken off: ${story.reason}.`;
    case 'woken':
      return 'The late write arrives.';
    default:
      return 'Nothing is written yet.';
  }
}

/** Line for all that plays, next to the buttons, which screen readers get step by step. */
function currentStep({ stories }) {
  const playing = stories.filter(({ phase }) => DONE[phase] < STEPS && phase !== 'broken-off');
  const [story = stories.at(-1)] = playing;
  if (!story) return 'Nothing is stopped yet. One click plays five steps, in about five seconds.';
  const { holder, successor } = story;
  const seat = seatName(story.seatId);
  switch (story.phase) {
    case 'begun':
      return `${holder.customer} takes the lock of ${seat} at worker ${holder.worker}, and pays.`;
    case 'stopped':
      return `1 of 5: worker ${holder.worker} is stopped before it writes. Its lock runs out.`;
    case 'ran-out':
      return `2 of 5: the lock ran out. Worker ${successor.worker} has it, and ${successor.customer} pays.`;
    case 'seated':
      return `3 of 5: ${successor.customer} has seat ${seat}.`;
    case 'woken':
      return `4 of 5: worker ${holder.worker} wakes up and writes.`;
    default:
      return ended(stories);
  }
}

function ended(stories) {
  const texts = stories.flatMap(({ phase, fenced, seatId, reason }) => {
    if (phase === 'refused')
      return [`${seatName(seatId)}, with the fence: the late write is rejected.`];
    if (phase === 'sold-twice') return [`${seatName(seatId)}, without the fence: sold twice.`];
    return [`${fenced ? 'With' : 'Without'} the fence: broken off, ${reason}.`];
  });
  const isWhole = stories.every(({ phase }) => phase !== 'broken-off');
  return `${isWhole ? '5 of 5. ' : ''}${texts.join(' ')}`;
}
