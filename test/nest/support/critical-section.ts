/** A resource that notices when two are inside at once. */
export class CriticalSection {
  entered = 0;
  inside = 0;
  mostInside = 0;

  reset(): void {
    this.entered = this.inside = this.mostInside = 0;
  }

  /** Stays inside long enough for every other call to have its chance. */
  async visit<Result>(result?: Result): Promise<Result | undefined> {
    this.enter();
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.inside -= 1;
    return result;
  }

  leave(): void {
    this.inside -= 1;
  }

  enter(): void {
    this.entered += 1;
    this.inside += 1;
    this.mostInside = Math.max(this.mostInside, this.inside);
  }
}

/** Opened from outside, to hold a method where a test wants it. */
export class Gate {
  readonly opened: Promise<void>;
  open!: () => void;

  constructor() {
    this.opened = new Promise((resolve) => {
      this.open = resolve;
    });
  }
}
