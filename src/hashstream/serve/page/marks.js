// What the reader says about the answers of one query. Pure: no page, no service.
//
// An answer without a mark counts as the same class if it has no label; one with a label keeps it. A mark says
// otherwise: "same", or "other", with a class or without one.

import { keyOf } from "./dom.js";

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export class Marks {
  constructor() {
    this.marks = new Map(); // key of an id -> {id, same: true} or {id, same: false, label}
    this.own = undefined; // the class of the query; undefined until it is chosen
  }

  /** What holds for an answer: {same, label, by: "mark" | "stored" | "default"}. */
  of(item) {
    const mark = this.marks.get(keyOf(item.id));
    if (mark) return mark.same ? {
      same: true, label: this.own ?? null, by: "mark",
    } : { same: false, label: mark.label ?? this.left(item), by: "mark" };
    if (item.label === null) return { same: true, label: this.own ?? null, by: "default" };
    return { same: equal(item.label, this.own), label: item.label, by: "stored" };
  }

  /** The label that a wrong answer keeps: none where it is the one that was called wrong. */
  left(item) {
    return equal(item.label, this.own) ? null : item.label;
  }

  set(item, same, label = null) {
    const key = keyOf(item.id);
    this.marks.delete(key);
    const plain = same && (item.label === null || equal(item.label, this.own));
    if (!plain) this.marks.set(key, same ? { id: item.id, same } : { id: item.id, same, label });
  }

  toggle(item) {
    this.set(item, !this.of(item).same);
  }

  /** The labels that change: [{id, before, after}]. fresh: whether answers without a mark take the class, too. */
  changes(query, answers, { fresh = true } = {}) {
    if (this.own === undefined) return [];
    const out = [{ id: query.id, before: query.label, after: this.own }];
    for (const item of answers) {
      const { label, by } = this.of(item);
      if (by === "mark" || (by === "default" && fresh)) {
        out.push({ id: item.id, before: item.label, after: label });
      }
    }
    return out.filter(({ before, after }) => !equal(before, after));
  }

  clear() {
    this.marks.clear();
  }

  /** As values for the address, and back. */
  toState() {
    const all = [...this.marks.values()];
    const some = (list) => (list.length ? list : null);
    return {
      c: this.own === undefined ? null : [this.own],
      yes: some(all.filter((m) => m.same).map((m) => m.id)),
      no: some(all.filter((m) => !m.same && m.label === null).map((m) => m.id)),
      as: some(all.filter((m) => !m.same && m.label !== null).map((m) => [m.id, m.label])),
    };
  }

  fromState({ c, yes, no, as }) {
    this.own = Array.isArray(c) ? c[0] : undefined;
    this.marks.clear();
    const list = (value) => (Array.isArray(value) ? value : []);
    for (const id of list(yes)) this.marks.set(keyOf(id), { id, same: true });
    for (const id of list(no)) this.marks.set(keyOf(id), { id, same: false, label: null });
    for (const [id, label] of list(as)) this.marks.set(keyOf(id), { id, same: false, label });
  }
}
