// The reader's choices on one board of suggestions: a class for a card, or that it is left out. Pure: no page, no
// service. A card without a choice counts as its guess; without a guess it is open, and not sent.

import { keyOf } from "./dom.js";

export const sameLabel = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export class Choices {
  /**
   * items: [{id, guess, why}]. marks: pairs of an id's key and {label} or {out: true}, the latest last. fresh: how many
   * of them were made since the board was last shown; these are taken back one by one.
   */
  constructor({ items = [], marks = [], fresh = 0 } = {}) {
    this.items = items;
    const keys = new Set(items.map(({ id }) => keyOf(id)));
    this.marks = new Map(marks.filter(([key]) => keys.has(key)));
    this.fresh = Math.min(fresh, this.marks.size);
  }

  /** What holds for a card: {kind: "given" | "guess" | "open" | "out", label}. */
  of(item) {
    const mark = this.marks.get(keyOf(item.id));
    if (mark?.out) return { kind: "out", label: null };
    if (mark) return { kind: "given", label: mark.label };
    return item.guess === null ? { kind: "open", label: null } : { kind: "guess", label: item.guess };
  }

  /** Gives a class to a card. The class that it was given already is taken back. */
  give(item, label) {
    const { kind, label: before } = this.of(item);
    if (kind === "given" && sameLabel(before, label)) this.drop(keyOf(item.id));
    else this.put(item, { label });
  }

  /** Leaves a card out, or takes it in again. Answers whether it is out now. */
  leave(item) {
    const out = this.of(item).kind !== "out";
    if (out) this.put(item, { out });
    else this.drop(keyOf(item.id));
    return out;
  }

  put(item, mark) {
    this.drop(keyOf(item.id)); // so that the latest choice is the last one
    this.marks.set(keyOf(item.id), mark);
    this.fresh += 1;
  }

  drop(key) {
    const old = [...this.marks.keys()].indexOf(key) < this.marks.size - this.fresh;
    if (this.marks.delete(key) && !old) this.fresh -= 1;
  }

  /** Takes the latest choice back; answers its item. */
  takeBack() {
    const key = [...this.marks.keys()].at(-1);
    this.drop(key);
    return this.items.find(({ id }) => keyOf(id) === key);
  }

  /** The next card after this one without a choice, the first ones after the last one; null where there is none. */
  after(item) {
    const place = this.items.indexOf(item);
    const round = [...this.items.slice(place + 1), ...this.items.slice(0, place)];
    return round.find(({ id }) => !this.marks.has(keyOf(id))) ?? null;
  }

  /** The items of a kind. */
  all(kind) {
    return this.items.filter((item) => this.of(item).kind === kind);
  }

  /** The items whose guess the reader changed. */
  corrected() {
    return this.all("given").filter((item) => item.guess !== null && !sameLabel(this.of(item).label, item.guess));
  }

  /** Classes that the reader gave. */
  labels() {
    return [...this.marks.values()].filter(({ out }) => !out).map(({ label }) => label);
  }

  /** The labels to store: [{id, before, after}]. */
  changes() {
    const some = this.items.map((item) => ({ id: item.id, before: null, after: this.of(item).label }));
    return some.filter(({ after }) => after !== null);
  }

  /** How many guesses the reader let stand: {right, of}; null on a board without guesses. */
  seen() {
    const guessed = this.items.filter((item) => item.guess !== null && this.of(item).kind !== "out");
    const right = guessed.filter((item) => sameLabel(this.of(item).label, item.guess)).length;
    return guessed.length ? { right, of: guessed.length } : null;
  }

  toJSON() {
    const items = this.items.map(({ id, guess, why }) => ({ id, guess, why }));
    return { items, marks: [...this.marks], fresh: this.fresh };
  }
}
