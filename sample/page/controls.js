// The buttons. They are never disabled, which would take the focus away from the keyboard, but say that they do nothing.
import { element, setAttribute, setText } from './elements.js';

const LABELS = { freeze: 'Freeze', kill: 'Kill', heal: 'Heal' };
const POSSIBLE = { up: ['freeze', 'kill'], frozen: ['kill', 'heal'], killed: ['heal'] };
const STATES = { up: '● up', frozen: '◌ frozen', killed: '✖ killed' };

const freezeHolder = document.getElementById('freeze-holder');
const fence = document.getElementById('fence');
const answer = document.getElementById('answer');

async function push(path) {
  let message = '';
  try {
    const response = await fetch(`controls/${path}`, { method: 'POST' });
    if (!response.ok) message = (await response.json()).message;
  } catch {
    message = 'The sample did not answer.';
  }
  setText(answer, message);
  answer.hidden = message === '';
}

function connect(button, path) {
  button.addEventListener('click', () => {
    if (button.getAttribute('aria-disabled') !== 'true') void push(path());
  });
}

export function connectControls() {
  connect(freezeHolder, () => 'holder/freeze');
  connect(fence, () => `fence/${fence.getAttribute('aria-checked') === 'true' ? 'off' : 'on'}`);
}

export function showControls(state) {
  setAttribute(freezeHolder, 'aria-disabled', String(state.isFreezing));
  setText(
    freezeHolder,
    state.isFreezing ? 'A holder is being frozen…' : 'Freeze the current holder',
  );
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
        : `${up} of ${nodes.length} nodes are left and a lock needs ${needed}: nothing is locked, paid or written.`
      : 'These servers are yours (REDIS_NODES): they are left alone, so nodes can’t be frozen or killed here.',
  );
}

function nodeCard(number) {
  const buttons = Object.entries(LABELS).map(([action, label]) => {
    const button = element('button', { type: 'button', textContent: label, dataset: { action } });
    button.setAttribute('aria-label', `${label} node ${number}`);
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
        element('strong', { textContent: `Node ${number}` }),
        element('span', { className: 'address' }),
      ),
      element('span', { className: 'state' }),
    ),
    element('div', {}, ...buttons),
  );
}

function showNode(card, node, index, state) {
  const address = state.addresses[index];
  const guardMs = node === 'up' ? (state.quarantineUntilMs[address] ?? 0) - state.atMs : 0;
  card.dataset.state = node;
  setText(card.querySelector('.address'), address);
  setText(card.querySelector('.state'), guardMs > 0 ? '● up, may not vote yet' : STATES[node]);
  for (const button of card.querySelectorAll('button')) {
    const isPossible = state.canFault && POSSIBLE[node].includes(button.dataset.action);
    setAttribute(button, 'aria-disabled', String(!isPossible));
  }
}
