// Teach: one query, its nearest answers, marks by clicks and keys, and a grid that ranks again after each step.
// State in the address: q (id), k, c (the chosen class), yes/no/as (marks), done (the query was sent).

import { answerCard, classChips, paintAnswer } from "./answers.js";
import { Grid, itemsOf, labelMark, picture, ranking } from "./cards.js";
import { labelText, sameLabel } from "./classes.js";
import { button, count, fill, h, items, keyOf, notice, sameId, score, toast } from "./dom.js";
import { Marks } from "./marks.js";
import { Painter } from "./painter.js";
import { Progress } from "./progress.js";
import { change } from "./route.js";
import { during, takenBack, Undo } from "./undo.js";

const SIZES = [12, 24, 48];
const SURE = 0.6; // from which on a guess is chosen beforehand: if it is right, it costs no key

export class TeachView {
  constructor(context) {
    this.context = context;
    this.marks = new Marks();
    this.undo = new Undo(context);
    this.progress = new Progress(context, this.undo);
    this.added = []; // classes that the reader named and that no item has yet
    this.skipped = new Set();
    this.suggestions = [];
    this.hints = new Map(); // key of an id -> its suggestion, also of older lists
    this.build();
    this.keys = [
      {
        keys: [..."0123456789"], shown: "1 … 0", text: "class of the item; on a wrong answer: its class",
        run: (e) => this.digit(e.key),
      },
      { keys: [" "], shown: "Space", text: "the answer is wrong, or right after all", run: () => false },
      {
        keys: ["Enter"], shown: "Enter", text: "teach; after that, the next item", run: (e) => this.enter(e),
      },
      { keys: ["a"], shown: "A", text: "all answers are the same", run: () => this.markAll(true) },
      { keys: ["x"], shown: "X", text: "none of the answers is the same", run: () => this.markAll(false) },
      { keys: ["n"], shown: "N", text: "next item, without teaching", run: () => this.next() },
      { keys: ["Ctrl+z", "u"], shown: "Ctrl+Z U", text: "undo the last step", run: () => this.takeBack() },
      { keys: ["c"], shown: "C", text: "name a new class", run: () => this.newClass.focus() },
      {
        keys: ["g"], shown: "G", text: "go to the answers, then ← ↑ → ↓",
        run: () => this.grid.element.querySelector(".face[tabindex='0']")?.focus(),
      },
      {
        keys: ["i"], shown: "I", text: "details of the answer, or of the item",
        run: () => change({ item: (this.grid.current() ?? this.query)?.id }),
      },
    ];
  }

  build() {
    const { context } = this;
    this.face = h("div.face-slot");
    this.queryMark = h("span");
    this.chips = h("div.chips", { role: "radiogroup", "aria-label": "Class of the item" });
    this.newClass = h(
      "input",
      {
        type: "text", placeholder: "new class", "aria-label": "New class", maxlength: "200",
        autocomplete: "off",
      },
    );
    const form = h(
      "form.row.new", { on: { submit: (e) => (e.preventDefault(), this.nameClass()) } }, this.newClass,
      h("button", { text: "Add", title: "Add this class and choose it" }),
    );
    this.primary = button("Teach", () => this.act(), { kind: "primary wide" });
    this.back = button("Undo", () => this.takeBack(), { key: "Ctrl Z" });
    this.skip = button("Skip", () => this.next(), { key: "N" });
    this.ask = h(
      "section.panel.query", { "aria-label": "The item" }, this.face,
      h(
        "div.answer", {},
        h(
          "div.row.between", {}, h("h2.question", { text: "What is it?" }),
          h("span.faint.for-keys", { text: "keys 1 … 9, 0" }),
        ),
        this.chips, form,
      ),
      h("div.actions", {}, this.primary, h("div.row", {}, this.back, this.skip)),
    );
    this.note = h("p.faint", { "aria-live": "polite" });
    this.grid = new Grid(
      {
        label: "Nearest answers", texts: !context.info.images, make: (item) => answerCard(context, item),
        update: (card, item) => paintAnswer(this, card, item),
      }
    );
    this.painter = new Painter(
      this.grid, { of: (item) => this.marks.of(item).same, mark: (list, same) => this.mark(list, same) },
    );
    this.size = h(
      "select",
      { "aria-label": "How many answers", on: { change: (e) => change({ k: Number(e.target.value) }) } },
      SIZES.map((n) => h("option", { value: n, text: n })),
    );
    this.body = h("div.body", {}, this.grid.element);
    const head = h(
      "div.head", {}, h("h1", { text: "Nearest answers" }), this.note,
      h(
        "div.row.push", {}, button("All same", () => this.markAll(true), { key: "A", kind: "quiet" }),
        button("None same", () => this.markAll(false), { key: "X", kind: "quiet" }), this.size,
      ),
    );
    this.element = h(
      "div.columns.three", {}, h("div.side", {}, this.ask), h("div.content", {}, head, this.body),
      this.progress.element,
    );
  }

  async update(state) {
    const k = SIZES.includes(state.k) ? state.k : 24;
    this.size.value = k;
    this.marks.fromState(state);
    this.done = Boolean(state.done);
    if (this.query && sameId(state.q, this.query.id) && k === this.k) return this.repaint();
    this.k = k;
    try {
      const { info } = this.context;
      if (info.read_only) return this.stop("This table is read only", "Search and the map work.");
      if (!info.n_items) return this.stop("This table has no items yet", "Store some; then teach here.");
      await Promise.all([this.progress.load(), this.suggestions.length ? null : this.suggest()]);
      if (state.q === undefined) return this.first();
      return await this.load(state.q, {});
    } catch (problem) {
      return this.stop(
        "The service says", problem.message,
        button(
          "Take another item", () => change({ q: null, done: null, c: null, yes: null, no: null, as: null }),
        ),
      );
    }
  }

  stop(title, detail, ...actions) {
    this.query = null;
    this.grid.show([]);
    fill(this.body, notice(title, detail, ...actions));
  }

  async suggest() {
    const answer = await this.context.get("suggestions", { query: { n: 12 } });
    this.suggestions = answer.items;
    for (const item of answer.items) this.hints.set(keyOf(item.id), item);
    this.progress.showConfused(answer.confused);
  }

  /** Takes the first suggestion, in the place of the address without an item. */
  async first() {
    if (!this.element.isConnected) return undefined; // the reader has gone elsewhere
    const item = this.suggestions.find(({ id }) => !this.skipped.has(keyOf(id))) ?? this.suggestions[0];
    if (!item) return this.stop(
      "There is nothing left to suggest",
      "Every item has a label. Search for one, and choose “Teach with this” to correct labels.",
    );
    change(
      { q: item.id, k: this.k === 24 ? null : this.k, done: null, ...this.marks.toState() },
      { remember: false },
    );
    return this.load(item.id, {});
  }

  /** Shows a query and its answers. */
  async load(id, { animate = false } = {}) {
    const { context, k } = this;
    this.number = (this.number ?? 0) + 1;
    const number = this.number;
    const include = context.info.images ? ["labels"] : ["labels", "fields", "payloads"];
    const [got, answer] = await Promise.all(
      [
        context.items([id]),
        context.post("search", { like: [id], k: k + 1, include, ...ranking(context.info, k + 1) }),
      ]
    );
    if (number !== this.number) return;
    const [query] = itemsOf(got);
    if (Array.isArray(query.label)) return this.stop(
      "The labels of this table are rows of a matrix",
      "This page teaches one class per item. Send such labels to POST /labels.",
    );
    const isNew = !this.query || !sameId(this.query.id, id);
    this.query = query;
    const hint = this.hints.get(keyOf(id));
    this.guess = hint?.guess ?? null;
    if (this.marks.own === undefined && query.label !== null) this.marks.own = query.label;
    const sure = this.guess !== null && 1 - hint.uncertainty >= SURE;
    if (this.marks.own === undefined && sure) this.marks.own = this.guess;
    this.answers = itemsOf(answer, 0).filter((item) => !sameId(item.id, id)).slice(0, k);
    fill(this.body, this.grid.element);
    if (isNew) this.showFace();
    this.grid.show(this.answers, { animate });
    this.repaint();
  }

  showFace() {
    const { query, context } = this;
    const hint = this.hints.get(keyOf(query.id));
    fill(
      this.face,
      h("div.frame.large", {}, picture(context.info, query, { large: true })),
      h(
        "div.about", {},
        h("div.row.between", {}, h("strong", { text: `Item ${String(query.id)}` }), this.queryMark),
        hint && h("p.why", { text: hint.why }),
      ),
    );
  }

  repaint() {
    const { marks, context } = this;
    if (!this.query) return;
    this.grid.repaint();
    fill(this.chips, classChips(this));
    fill(this.queryMark, labelMark(context.classes, this.query.label));
    const others = this.answers.filter((item) => !marks.of(item).same).length;
    const rest = `${this.answers.length - others} the same, ${others} other`;
    this.note.textContent = this.done ? "ranked again" : marks.own === undefined
      ? "click those that are wrong" : rest;
    const n = this.changes().length;
    const teach = n ? `Teach ${count(n)} as ${labelText(marks.own)}` : "Next item";
    const idle = marks.own === undefined && !this.done ? "Choose a class" : teach;
    const text = this.busy ? "Teaching …" : idle;
    fill(this.primary, text, h("kbd", { text: "Enter", "aria-hidden": "true" }));
    this.primary.disabled = Boolean(this.busy) || (marks.own === undefined && !this.done);
    this.back.disabled = Boolean(this.busy) || !this.undo.steps.length;
    this.back.title = this.undo.steps.length ? `Undo: ${this.undo.steps.at(-1).title}` : "Nothing to undo";
  }

  changes() {
    return this.query ? this.marks.changes(this.query, this.answers, { fresh: !this.done }) : [];
  }

  /** Shows the marks and puts them into the address. */
  touched() {
    this.undo.click();
    this.progress.paint();
    change({ ...this.marks.toState(), done: this.done || null }, { remember: false });
    this.repaint();
  }

  choose(label) {
    this.marks.own = label;
    this.done = false;
    this.touched();
  }

  nameClass() {
    const label = this.context.classes.parse(this.newClass.value);
    if (label === undefined) return;
    this.newClass.value = "";
    this.added.push(label);
    this.newClass.blur();
    this.choose(label);
  }

  digit(key) {
    const label = this.context.classes.ofKey(key, this.added);
    if (label === undefined) return void toast(`No class has the key ${key} yet. Press C to name a new one.`);
    const item = this.grid.current();
    const wrong = item && this.marks.own !== undefined && !this.marks.of(item).same;
    return wrong ? this.give(item, label) : this.choose(label);
  }

  give(item, label) {
    if (sameLabel(label, this.marks.own)) this.marks.set(item, true);
    else this.marks.set(item, false, label);
    this.touched();
  }

  mark(list, same) {
    this.done = false;
    for (const item of list) this.marks.set(item, same);
    this.touched();
  }

  markAll(same) {
    this.mark(
      (this.answers ?? []).filter((item) => item.label === null || this.marks.marks.has(keyOf(item.id))),
      same,
    );
  }

  enter(event) {
    if (event.target.matches("button:not(.face), a, summary")) return false;
    return this.act();
  }

  act() {
    if (this.busy || !this.query) return undefined;
    if (this.done && !this.changes().length) return this.next();
    if (this.marks.own === undefined) {
      return void toast("Say first what the item is: press a digit, or choose a class.");
    }
    return this.changes().length ? this.teach() : this.next();
  }

  async teach() {
    const changes = this.changes();
    const title = `${items(changes.length)} as ${labelText(this.marks.own)}`;
    const before = this.progress.quality();
    const first = !this.undo.steps.length || !sameId(this.undo.steps.at(-1).query, this.query.id);
    const right = this.answers.filter((item) => this.marks.of(item).same).length;
    const seen = first ? {
      right, of: this.answers.length,
    } : null; // only at first sight does it say how good the search is
    await this.during(async () => {
      await this.undo.teach(changes, title, this.query.id, seen);
      this.marks.clear();
      this.done = true;
      change({ ...this.marks.toState(), done: true }, { remember: false });
      await this.rankAgain();
      const after = this.progress.quality();
      const gain = after === null || after === before ? "" : before === null ? ` mAP is ${score(after)}.`
        : ` mAP ${score(before)} → ${score(after)}.`;
      toast(`Taught ${title}.${gain}`, { action: { text: "Undo", run: () => this.takeBack() } });
    });
  }

  /** Re-encodes, searches again and lets the cards move to their new places. */
  async rankAgain() {
    const refreshed = this.context.write("refresh", { budget: null }).catch(
      (problem) => toast(`The labels are stored; the refresh failed: ${problem.message}`, { kind: "error" })
    );
    await refreshed;
    await this.progress.load();
    await this.load(this.query.id, { animate: true });
    this.suggesting = this.suggest().catch(() => {});
  }

  takeBack() {
    if (this.busy || !this.undo.steps.length) return toast("There is nothing to undo.");
    return this.during(async () => {
      const { step, kept } = await this.undo.undo();
      this.marks.clear();
      this.marks.own = undefined;
      this.done = false;
      const at = step.query ?? this.query?.id; // a board has no query
      if (at === undefined) return this.suggest().then(() => this.first());
      const other = !this.query || !sameId(at, this.query.id);
      change({ q: at, ...this.marks.toState(), done: null }, { remember: false });
      if (other) this.query = { id: at, label: null };
      if (other) this.grid.show([]);
      await this.rankAgain();
      if (other) this.showFace();
      toast(takenBack(step, kept));
    });
  }

  during(work) {
    return during(this, work);
  }

  async next() {
    if (this.busy) return;
    this.undo.click();
    if (this.query) this.skipped.add(keyOf(this.query.id));
    await this.suggesting; // the labels that were just sent have changed what is worth a label
    let next = this.suggestions.find(({ id }) => !this.skipped.has(keyOf(id)));
    if (!next) {
      await this.suggest().catch(() => {});
      next = this.suggestions.find(({ id }) => !this.skipped.has(keyOf(id)));
    }
    if (!next && this.skipped.size > 1) this.skipped.clear();
    next ??= this.suggestions[0];
    change({ q: next?.id ?? null, c: null, yes: null, no: null, as: null, done: null });
  }

  onEvent(kind) {
    if (!this.busy && kind === "commit") this.progress.load().catch(() => {});
  }
}
