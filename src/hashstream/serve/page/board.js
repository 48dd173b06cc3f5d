// Teach by boards: suggestions with guesses, one click corrects a guess, one click teaches the whole board.
// Choices that are not sent yet are kept in the tab, so that a reload loses nothing.

import { makeCard, paintCard } from "./board_cards.js";
import { Grid, itemsOf } from "./cards.js";
import { Choices, sameLabel } from "./choices.js";
import { labelText } from "./classes.js";
import { button, count, fill, h, items, keyOf, notice, toast } from "./dom.js";
import { Guesses } from "./guesses.js";
import { rise, sweep } from "./motion.js";
import { Progress } from "./progress.js";
import { change } from "./route.js";
import { during, takenBack, Undo } from "./undo.js";

const FIRST = 12; // cards while nothing is labelled: each one costs a click
const SIZE = 24;
const MOST = 100; // suggestions that the service gives
const SHORT = 2; // characters of a class that fits into a small square
const ARROWS = ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"];
const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

export class BoardView {
  constructor(context) {
    this.context = context;
    this.store = `hashstream.board.${context.info.name}`;
    this.undo = new Undo(context);
    this.progress = new Progress(context, this.undo, new Guesses(this.undo));
    this.choices = new Choices();
    this.added = []; // classes that the reader named and that no item has yet
    this.skipped = []; // ids that were left out of boards
    this.build();
    const keys = (names, shown, text, run) => ({ keys: names, shown, text, run });
    this.keys = [
      keys(DIGITS.map(String), "1 … 0", "class of the card, and on to the next one", (e) => this.digit(e.key)),
      keys(ARROWS, "← ↑ → ↓", "move between cards", () => this.enterGrid()),
      keys(["Delete", "Backspace"], "Delete", "leave the card out, or take it in again", () => this.leaveOut()),
      keys(["Enter"], "Enter", "teach the board: all cards that have a class", (e) => this.enter(e)),
      keys(["c"], "C", "name a new class, for this card", () => this.askName(this.current())),
      keys(["Ctrl+z", "u"], "Ctrl+Z U", "undo the last choice; after that, the last board", () => this.takeBack()),
      keys(["i"], "I", "details of the card", () => change({ item: this.current()?.id })),
    ];
  }

  build() {
    const { info } = this.context;
    this.title = h("h1");
    this.note = h("p.faint", { "aria-live": "polite" });
    this.newClass = h("input", {
      type: "text", placeholder: "new class", "aria-label": "New class", maxlength: "200", autocomplete: "off",
      on: { blur: () => this.setTarget(null) },
    });
    const keepFocus = { pointerdown: (e) => e.preventDefault() }; // of the text, which knows its card
    const add = h("button", { text: "Add", title: "Add this class", on: keepFocus });
    this.digits = button("0 … 9", () => this.addDigits(), { title: "Add the classes 0, 1, … 9" });
    const submit = (e) => (e.preventDefault(), this.nameClass());
    const form = h("form.new", { on: { submit } }, this.digits, this.newClass, add);
    this.back = button("Undo", () => this.takeBack());
    this.primary = button("Teach", () => this.act(), { kind: "primary" });
    this.grid = new Grid({
      label: "Board", texts: !info.images,
      make: (item) => makeCard(info, item), update: (card, item) => this.paint(card, item),
    });
    this.grid.element.addEventListener("click", (e) => this.clicked(e));
    this.grid.element.addEventListener("change", (e) => this.picked(e));
    this.grid.element.addEventListener("focusin", () => this.showWhy());
    this.body = h("div.body", {}, this.grid.element);
    this.why = h("p.caption");
    this.head = h(
      "div.bar-top", {},
      h("div.ask", {}, this.title, this.note), form, h("div.actions", {}, this.back, this.primary),
    );
    const content = h("div.content", {}, this.head, this.body, this.why);
    this.element = h("div.columns.board", {}, content, this.progress.element);
  }

  /** Shows the board that was begun, or new suggestions. */
  async update() {
    if (this.number) return;
    const { info } = this.context;
    if (info.read_only) return void this.stop("This table is read only", "Search and the map work.");
    if (!info.n_items) return void this.stop("This table has no items yet", "Store some; then teach here.");
    let kept = {};
    try { kept = JSON.parse(sessionStorage.getItem(this.store) ?? "{}"); } catch { /* begin again */ }
    Object.assign(this, { added: kept.added ?? [], skipped: kept.skipped ?? [] });
    try {
      await this.load(kept.board);
    } catch (problem) {
      this.number = 0;
      this.stop("The service says", problem.message, button("Try again", () => this.update()));
    }
  }

  stop(title, detail, ...actions) {
    this.choices = new Choices();
    this.repaint();
    this.grid.show([]);
    fill(this.body, notice(title, detail, ...actions));
  }

  /** Shows a board: one that was there before, as far as its items still lack a label, or the next one. */
  async load(before = null, { animate = false } = {}) {
    this.number = (this.number ?? 0) + 1;
    const { context, progress, number } = this;
    await progress.load();
    const size = progress.labelled ? SIZE : FIRST;
    const answer = await context.get("suggestions", { query: { n: Math.min(MOST, size + this.skipped.length) } });
    const again = before?.items ? await this.stillOpen(before.items) : [];
    const list = again.length ? again : await this.stillOpen(this.chosen(answer.items, size));
    if (number !== this.number || !this.element.isConnected) return;
    progress.showConfused(answer.confused);
    if (list.some(({ guess }) => Array.isArray(guess))) {
      return void this.stop("The labels of this table are rows of a matrix", "This page teaches one class per item.");
    }
    if (!list.length) {
      const how = "To correct labels, search for an item and choose “Teach with this”.";
      return void this.stop("There is nothing left to suggest", `Every item has a label. ${how}`);
    }
    if (animate) await sweep(this.grid);
    this.choices = new Choices(again.length ? { ...before, items: list } : { items: list });
    this.save();
    this.takeClasses();
    fill(this.body, this.grid.element);
    this.grid.show(list);
    if (animate) rise(this.grid);
    this.repaint();
    const { activeElement } = document;
    const free = activeElement === document.body || activeElement.id === "main";
    if (free || this.element.contains(activeElement)) this.focus(this.choices.after(list.at(-1)) ?? list[0]);
  }

  /** The suggestions of a board, those of one guess side by side, so that the odd one out is seen at once. */
  chosen(found, size) {
    const skipped = new Set(this.skipped.map(keyOf));
    const fresh = found.filter(({ id }) => !skipped.has(keyOf(id)));
    if (!fresh.length) this.skipped = [];
    const list = (fresh.length ? fresh : found).slice(0, size);
    const guesses = list.map(({ guess }) => guess).filter((guess) => guess !== null);
    const order = this.context.classes.all(guesses).map((label) => JSON.stringify(label));
    const place = ({ guess }) => order.indexOf(JSON.stringify(guess));
    return list.sort((a, b) => place(a) - place(b) || a.uncertainty - b.uncertainty);
  }

  /** Those of these cards whose items are stored and have no label. */
  async stillOpen(cards) {
    const none = (problem) => (problem.status === 404 ? { ids: [] } : Promise.reject(problem));
    const got = await this.context.items(cards.map(({ id }) => id)).catch(none);
    const stored = new Map(itemsOf(got).map((item) => [keyOf(item.id), item]));
    const open = cards.filter(({ id }) => stored.get(keyOf(id))?.label === null);
    return open.map((card) => ({ ...stored.get(keyOf(card.id)), ...card }));
  }

  /** Keeps the board in the tab, where the reader has begun with it. */
  save(board = this.choices.marks.size ? this.choices : null) {
    sessionStorage.setItem(this.store, JSON.stringify({ board, added: this.added, skipped: this.skipped }));
  }

  known() {
    return [...this.added, ...this.choices.labels()];
  }

  takeClasses() {
    const { classes } = this.context;
    this.labels = classes.all(this.known());
    this.digitOf = this.labels.map((label) => classes.keyOf(label, this.known()));
    this.element.classList.toggle("named", this.labels.some((label) => labelText(label).length > SHORT));
  }

  paint(card, item) {
    const { labels, digitOf: keys } = this;
    paintCard(card, item, this.choices.of(item), { classes: this.context.classes, labels, keys });
  }

  repaint() {
    const { choices, busy, undo } = this;
    this.takeClasses();
    this.grid.repaint();
    const guesses = choices.items.some(({ guess }) => guess !== null);
    this.title.textContent = guesses ? "Which guesses are wrong?" : "What are these?";
    this.note.textContent = choices.items.length ? this.said(guesses) : "";
    const n = choices.changes().length;
    const text = busy ? "Teaching …" : n ? `Teach ${count(n)}` : "Teach";
    fill(this.primary, text, h("kbd", { text: "Enter", "aria-hidden": "true" }));
    this.primary.disabled = Boolean(busy) || !n;
    this.digits.hidden = this.labels.length > 0;
    this.back.disabled = Boolean(busy) || (!choices.fresh && !undo.steps.length);
    const last = undo.steps.length ? `Undo: ${undo.steps.at(-1).title}` : "Nothing to undo";
    this.back.title = choices.fresh ? "Undo the last choice" : last;
    this.showWhy();
  }

  /** What has been done on this board; at first, what there is to do. */
  said(guesses) {
    const { choices, labels } = this;
    const all = choices.items.length;
    const [open, out] = [choices.all("open").length, choices.all("out").length];
    const fixed = choices.corrected().length;
    const given = !guesses && choices.marks.size && `${all - open - out} of ${all} have a class`;
    const parts = [given, fixed && `${fixed} corrected`, out && `${out} left out`].filter(Boolean);
    if (parts.length) return parts.join(", ");
    if (guesses) return "Click the right class on those cards.";
    if (labels.length) return "Click a class on each card, or press its key.";
    return "Press a digit on a card, or name the classes.";
  }

  showWhy() {
    const item = this.current();
    fill(this.why, item && [h("b", { text: `Item ${String(item.id)}` }), ` ${item.why}`]);
  }

  /** The item of the card that has the focus, or that the Tab key leads to. */
  current() {
    const stop = this.grid.element.querySelector(".face[tabindex='0']");
    return this.grid.current() ?? this.find(stop?.closest(".card").dataset.id);
  }

  find(key) {
    return this.choices.items.find(({ id }) => keyOf(id) === key) ?? null;
  }

  focus(item) {
    const card = item && this.grid.cards.get(keyOf(item.id));
    card?.querySelector(".face").focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest" });
  }

  enterGrid() {
    if (this.grid.element.contains(document.activeElement)) return false;
    return this.focus(this.current());
  }

  clicked(event) {
    const item = this.find(event.target.closest(".card")?.dataset.id);
    const pick = event.target.closest("button.pick");
    if (!item || this.busy) return;
    if (pick && !pick.dataset.label) this.askName(item);
    else if (pick) {
      this.give(item, JSON.parse(pick.dataset.label));
      if (event.detail) this.focus(item); // so that Enter teaches
    } else if (event.target.closest(".face")) this.leave(item);
  }

  picked(event) {
    const item = this.find(event.target.closest(".card")?.dataset.id);
    if (item && event.target.value && !this.busy) this.give(item, JSON.parse(event.target.value));
  }

  /** Shows the choices, keeps them and counts the click. */
  touched() {
    this.undo.click();
    this.progress.paint();
    this.save();
    this.repaint();
  }

  give(item, label) {
    this.choices.give(item, label);
    this.touched();
  }

  /** Gives a class and goes on to the next card without a choice. */
  giveAndGo(item, label) {
    this.choices.put(item, { label });
    this.touched();
    this.focus(this.choices.after(item) ?? item);
  }

  leave(item) {
    this.choices.leave(item);
    this.touched();
  }

  leaveOut() {
    const item = this.current();
    if (!item || this.busy) return;
    this.leave(item);
    const { kind } = this.choices.of(item);
    this.focus((kind === "out" && this.choices.after(item)) || item);
  }

  digit(key) {
    const item = this.current();
    if (!item || this.busy) return;
    const label = this.context.classes.ofKey(key, this.known());
    if (label === undefined) return void toast(`No class has the key ${key} yet. Press C to name a new one.`);
    this.giveAndGo(item, label);
  }

  /** Asks for the name of a new class, for a card. */
  askName(item) {
    this.newClass.focus();
    this.setTarget(item);
  }

  setTarget(item) {
    this.target = item;
    this.newClass.placeholder = item ? `class of item ${String(item.id)}` : "new class";
    for (const [key, card] of this.grid.cards) card.classList.toggle("target", Boolean(item) && keyOf(item.id) === key);
  }

  nameClass() {
    const label = this.context.classes.parse(this.newClass.value, this.known());
    if (label === undefined || this.busy) return;
    const item = this.target;
    this.newClass.value = "";
    if (!this.labels.some((other) => sameLabel(other, label))) this.added.push(label);
    if (!item) return void this.touched();
    this.newClass.blur();
    this.giveAndGo(item, label);
  }

  addDigits() {
    this.added.push(...DIGITS);
    this.touched();
    this.focus(this.current());
  }

  enter(event) {
    if (event.repeat || event.target.matches("button:not(.face), a, summary")) return false;
    return this.act();
  }

  act() {
    if (this.busy) return undefined;
    if (this.choices.changes().length) return this.teach();
    return void toast("No card has a class yet: press a digit, or click a class on a card.");
  }

  teach() {
    const { choices } = this;
    const [changes, seen] = [choices.changes(), choices.seen()];
    const title = `a board of ${items(changes.length)}`;
    return this.during(async () => {
      await this.undo.teach(changes, title, null, seen, choices.toJSON());
      this.skipped.push(...choices.all("out").map(({ id }) => id));
      this.save(null);
      await this.refresh();
      await this.load(null, { animate: true });
      const right = seen ? ` ${seen.right} of ${seen.of} guesses were right.` : "";
      toast(`Taught ${title}.${right}`, { action: { text: "Undo", run: () => this.takeBack() } });
    });
  }

  refresh() {
    return this.context.write("refresh", { budget: null }).catch((problem) => {
      toast(`The labels are stored; the refresh failed: ${problem.message}`, { kind: "error" });
    });
  }

  /** Takes back the last choice; where there is none, the last step. A board comes back as it was sent. */
  takeBack() {
    if (this.busy) return undefined;
    if (this.choices.fresh) {
      const item = this.choices.takeBack();
      this.touched();
      return this.focus(item);
    }
    if (!this.undo.steps.length) return void toast("There is nothing to undo.");
    return this.during(async () => {
      const { step, kept } = await this.undo.undo();
      await this.refresh();
      await this.load(step.board && { ...step.board, fresh: 0 }, { animate: true });
      toast(takenBack(step, kept));
    });
  }

  during(work) {
    return during(this, work);
  }

  onEvent(kind) {
    if (!this.busy && kind === "commit") this.progress.load().catch(() => {});
  }
}
