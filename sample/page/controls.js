// The buttons. They are never disabled, which would take the focus away from the keyboard, but say that they do nothing.
import { element, setAttribute, setText } from './elements.js';

const LABELS = { freeze: 'Freeze', kill: 'Kill', heal: 'Heal' };
const POSSIBLE = { up: ['freeze', 'kill'], frozen: ['kill', 'heal'], killed: ['heal'] };
const STATES = { up: '● up', frozen: '◌ frozen', killed: '✖ killed' };

/** A server that is stopped accepts the request, and never answers. */
const LONGEST_ANSWER_MS = 10_000;

const freezeHolder = document.getElementById('freeze-holder');
const playBoth = document.getElementById('play-both');
const fence = document.getElementById('fence');
const answer = document.getElementById('answer');

async function push(path) {
  let message = '';
  try {
    const signal = AbortSignal.timeout(LONGEST_ANSWER_MS);
    const response = await fetch(`controls/${path}`, { method: 'POST', signal });
    if (!response.ok) message = (await response.json()).message;
  } catch {
    message = 'The sample did not answer.';
  }
  showAnswer(message);
}

function showAnswer(message) {
  setText(answer, message);
  answer.hidden = message === '';
}

export function clearAnswer() {
  showAnswer('');
}

function connect(button, path) {
  button.addEventListener('click', () => {
    if (button.getAttribute('aria-disabled') !== 'true') void push(path());
  });
}

export function connectControls() {
  connect(freezeHolder, () => 'holder/freeze');
  connect(playBoth, () => 'holder/freeze-both');
  connect(fence, () => `fence/${fence.getAttribute('aria-checked') === 'true' ? 'off' : 'on'}`);
}

export function showControls(state) {
  setAttribute(freezeHolder, 'aria-disabled', String(state.isFreezing));
  setAttribute(playBoth, 'aria-disabled', String(state.isFreezing));
  setAttribute(fence, 'aria-checked', String(state.isFenced));
  showNodes(state);
}

function showNodes(state) {
  const list = document.getElementById('nodes');
  const { nodes } = state.stage;
  if (list.children.length !== nodes.length) {
    list.replaceChildren(...nodes.map((_, index) => nodeCard(index + 1)));
  }
  nodes.forEach((node, index) => showNode(list.children[index], node, index, state));
  const up = nodes.filter((node) => node === 'up').length;
  const needed = Math.floor(nodes.length / 2) + 1;
  const quorum = document.getElementById('quorum');
  quorum.hidden = state.canFault && up >= needed;
  setText(
    quorum,
    state.canFault
      ? up >= needed
        ? ''
        : `${up} of ${nodes.length} servers are left and a lock needs ${needed}: nothing is locked, paid or written.`
      : 'These servers are yours (REDIS_NODES): they are left alone, so they can’t be frozen or killed here.',
  );
}

function nodeCard(number) {
  const buttons = Object.entries(LABELS).map(([action, label]) => {
    const button = element('button', { type: 'button', textContent: label, dataset: { action } });
    button.setAttribute('aria-label', `${label} server ${number}`);
    connect(button, () => `nodes/${number}/${action}`);
    return button;
  });
  return element(
    'li',
    { className: 'node' },
    element(
      'p',
      {},
      element(
        'span',
        {},
        element('strong', { textContent: `Server ${number}` }),
        element('span', { className: 'address' }),
      ),
      element('span', { className: 'state' }),
    ),
    element('div', {}, ...buttons),
  );
}

function showNode(card, node, index, state) {
  const address = state.addresses[index];
  card.dataset.state = node;
  setText(card.querySelector('.address'), address);
  for (const button of card.querySelectorAll('button')) {
    const isPossible = state.canFault && POSSIBLE[node].includes(button.dataset.action);
    setAttribute(button, 'aria-disabled', String(!isPossible));
  }
}

/** A restarted server gives no locks for a while: it may have forgotten one that is still held. */
export function showVotes(state, nowMs) {
  const { children } = document.getElementById('nodes');
  state.stage.nodes.forEach((node, index) => {
    const address = state.addresses[index];
    const guardMs = node === 'up' ? (state.quarantineUntilMs[address] ?? 0) - nowMs : 0;
    const isRejoining = node === 'up' && state.rejoining.includes(address);
    const text = isRejoining
      ? '◔ restarted, gives no locks yet'
      : guardMs > 0
        ? `◔ gives locks in ${(guardMs / 1000).toFixed(1)} s`
        : STATES[node];
    setAttribute(
      children[index],
      'data-votes',
      String(node === 'up' && !isRejoining && guardMs <= 0),
    );
    setText(children[index].querySelector('.state'), text);
  });
}
