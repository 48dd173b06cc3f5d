// Steps of teaching that can be taken back, kept in the browser for each table.

import { items, toast } from "./dom.js";

const MOST = 50;

export class Undo {
  constructor(context) {
    this.context = context;
    this.store = `hashstream.undo.${context.info.name}`;
    this.clickStore = `hashstream.clicks.${context.info.name}`;
    try { this.steps = JSON.parse(localStorage.getItem(this.store) ?? "[]"); } catch { this.steps = []; }
  }

  save() {
    localStorage.setItem(this.store, JSON.stringify(this.steps));
  }

  /**
   * Stores labels as one step: changes [{id, before, after}], title: what the step is called, query: where it was,
   * seen: {right, of}, how many answers or guesses were right before it, or null. board: that was sent, if it was one.
   */
  async teach(changes, title, query, seen = null, board = null) {
    await this.send(changes.map(({ id, after }) => [id, after]));
    this.steps.push({ changes, title, query, seen, board });
    this.steps = this.steps.slice(-MOST);
    this.save();
  }

  /** Takes the last step back; labels that were changed by others since then stay. Answers {step, kept}. */
  async undo() {
    const step = this.steps.at(-1);
    const now = await this.context.items(step.changes.map(({ id }) => id));
    const stored = new Map(
      now.ids.map((id, i) => [JSON.stringify(id), JSON.stringify(now.labels[i] ?? null)])
    );
    const back = step.changes.filter(
      ({ id, after }) => stored.get(JSON.stringify(id)) === JSON.stringify(after)
    );
    if (back.length) await this.send(back.map(({ id, before }) => [id, before]));
    this.steps.pop();
    this.save();
    return { step, kept: step.changes.length - back.length };
  }

  send(pairs) {
    return this.context.write(
      "labels", { ids: pairs.map(([id]) => id), labels: pairs.map(([, label]) => label) },
    );
  }

  get clicks() {
    return Number(localStorage.getItem(this.clickStore) ?? 0);
  }

  click() {
    localStorage.setItem(this.clickStore, this.clicks + 1);
  }
}

/** The sentence about a step that was taken back. kept : items whose label others have changed since. */
export const takenBack = (step, kept) =>
  `Taken back: ${step.title}.${kept ? ` ${items(kept)} had another label by now and kept it.` : ""}`;

/** Runs one write of a view; the page shows that it is busy, and errors as sentences. */
export async function during(view, work) {
  view.busy = true;
  view.undo.click();
  view.repaint();
  view.element.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (problem) {
    toast(problem.message, { kind: "error" });
  } finally {
    view.busy = false;
    view.element.removeAttribute("aria-busy");
    view.repaint();
    view.progress.paint();
  }
}
