import type { Books } from '../database.ts';
import {
  lineOf,
  type ServerState,
  type ShowEvent,
  type ShowLog,
  type WorkerState,
} from '../log.ts';
import type { Cast, Role } from '../pause-holder.ts';
import type { Stage } from '../stage.ts';
import { toneOf } from '../terminal.ts';

/** How many lines of the log the page has. */
const KEPT_LINES = 30;

/** How far a story of a holder that is stopped has come. The last three are ends. */
type Phase =
  /** The holder takes the lock, and its customer pays. */
  | 'begun'
  /** The holder's process is stopped, and its lock runs out. */
  | 'stopped'
  /** The successor has the lock. */
  | 'ran-out'
  /** The successor has written. */
  | 'seated'
  | 'rejected'
  | 'sold-twice'
  | 'broken-off';

interface Actor extends Role {
  /** Decimal; undefined before the lock is held. */
  token?: string;
}

interface Story extends Cast {
  readonly holder: Actor;
  readonly successor: Actor;
  phase: Phase;
  /** The number that the database remembers for the seat, decimal; undefined without the fence. */
  floor?: string;
  isRefunded: boolean;
  /** Why it broke off. */
  reason?: string;
}

interface WorkerView {
  state: WorkerState;
  /** What it holds, or believes to hold. */
  holding?: { readonly seat: string; readonly customer: string; readonly token: string };
}

/** What the page shows. It follows from what is recorded here: from the log, and from what the database says. */
export class Board {
  readonly servers: ServerState[] = [];
  readonly workers: WorkerView[] = [];
  /** The latest one with the fence, and the latest one without it. */
  stories: Story[] = [];
  seats: { readonly id: string; readonly customers: readonly string[] }[] = [];
  isPlaying = false;
  canKill = false;
  /** The newest first. */
  readonly lines: { readonly id: number; time: string; text: string; tone: string }[] = [];
  #lastId = 0;

  constructor(log: ShowLog) {
    log.subscribe((event) => {
      this.#record(event);
      const text = lineOf(event);
      if (text === undefined) return;
      this.lines.unshift({ id: (this.#lastId += 1), time: log.time, text, tone: toneOf(event) });
      this.lines.splice(KEPT_LINES);
    });
  }

  /** Has servers and workers shown from now on. */
  show({ serverStates, workers, canKill }: Stage): void {
    this.servers.push(...serverStates);
    this.workers.push(...workers.map(({ state }) => ({ state })));
    this.canKill = canKill;
  }

  beginStory(cast: Cast): void {
    const others = this.stories.filter(({ fenced }) => fenced !== cast.fenced);
    const story = { ...cast, holder: { ...cast.holder }, successor: { ...cast.successor } };
    this.stories = [...others, { ...story, phase: 'begun', isRefunded: false }];
  }

  breakOff(fenced: boolean, reason: string): void {
    const story = this.stories.find((each) => each.fenced === fenced);
    if (story) Object.assign(story, { phase: 'broken-off', reason });
  }

  /** Seats are sold when the database says so, not when a worker does. */
  recordBooks({ tickets }: Books): void {
    this.seats = this.seats.map(({ id }) => ({
      id,
      customers: tickets.filter(({ seat }) => seat === id).map(({ customer }) => customer),
    }));
    for (const story of this.stories) {
      const sold = this.seats.find(({ id }) => id === story.seat);
      if ((sold?.customers.length ?? 0) > 1) story.phase = 'sold-twice';
    }
  }

  #record(event: ShowEvent): void {
    switch (event.type) {
      case 'server':
        this.servers[event.server - 1] = event.state;
        return;
      case 'worker': {
        this.workers[event.worker - 1] = { ...this.workers[event.worker - 1], state: event.state };
        const story = this.stories.find(({ holder }) => holder.worker === event.worker);
        if (event.state === 'stopped' && story?.phase === 'begun') story.phase = 'stopped';
        return;
      }
      case 'step': {
        const { seat, customer, token } = event;
        if (event.name === 'claimed')
          this.workers[event.worker - 1]!.holding = { seat, customer, token };
        const story = this.stories.find((each) => each.seat === seat);
        if (story) recordStep(story, event);
        return;
      }
      case 'ended': {
        const worker = this.workers[event.worker - 1]!;
        if (worker.holding?.seat === event.seat) worker.holding = undefined;
        return;
      }
      case 'told':
      case 'books':
    }
  }
}

function recordStep(story: Story, step: Extract<ShowEvent, { type: 'step' }>): void {
  const isHolder = step.customer === story.holder.customer;
  switch (step.name) {
    case 'claimed':
      if (story.fenced) story.floor = step.token;
      (isHolder ? story.holder : story.successor).token = step.token;
      if (!isHolder) story.phase = 'ran-out';
      return;
    case 'booked':
      if (!isHolder) story.phase = 'seated';
      return;
    case 'rejected':
      story.phase = 'rejected';
      story.floor = step.newerToken;
      return;
    case 'refunded':
      story.isRefunded = true;
      return;
    case 'paid':
    case 'taken':
  }
}
