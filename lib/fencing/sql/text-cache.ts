const MAX_TEXTS = 200;

/** Texts made once for each key. Bounded, for statements that vary: those that come when it is full are made each time. */
export class TextCache {
  private readonly texts = new Map<string, string>();

  /** @param make may throw; then nothing is kept */
  get(key: string, make: () => string): string {
    const known = this.texts.get(key);
    if (known !== undefined) return known;
    const text = make();
    if (this.texts.size < MAX_TEXTS) this.texts.set(key, text);
    return text;
  }
}
