// Cards of items: a thumbnail or text, a distance, a label; a grid of them that keyboard and re-ranking understand.

import { imageAddress, path, post } from "./api.js";
import { labelText } from "./classes.js";
import { calm, figure, h, keyOf, svg, toast } from "./dom.js";

const RESCORED = 200;
const LONGEST = 500; // characters of a text that stands for an item
const PATHS = {
  circle: "M6 1.2a4.8 4.8 0 1 0 0 9.6a4.8 4.8 0 1 0 0-9.6z",
  square: "M1.8 1.8h8.4v8.4h-8.4z",
  triangle: "M6 1l5.2 9.6h-10.4z",
  diamond: "M6 .6l5.4 5.4l-5.4 5.4l-5.4-5.4z",
  cross: "M4.3 .8h3.4v3.5h3.5v3.4h-3.5v3.5h-3.4v-3.5h-3.5v-3.4h3.5z",
};

/** The mark of a class: its colour in its shape. */
export function swatch(classes, label) {
  return svg(
    "svg.swatch", { viewBox: "0 0 12 12", "aria-hidden": "true" },
    svg("path", { d: PATHS[classes.shape(label)], style: { fill: classes.colour(label) } }),
  );
}

/** A label as people see it. */
export function labelMark(classes, label) {
  if (label === null || label === undefined) return h("span.label.none", { text: "no label" });
  return h("span.label", {}, swatch(classes, label), h("span", { text: labelText(label) }));
}

/** Text that stands for an item without a picture: the first texts of its payload and fields, or its id. */
export function textOf(item) {
  const values = [...Object.values(item.payload ?? {}), ...Object.values(item.fields ?? {})];
  const texts = values.filter(
    (v) => typeof v === "string" && v.trim() && v.length < LONGEST
  ); // longer ones are data
  return texts.length ? texts.slice(0, 2).join(" · ") : `item ${String(item.id)}`;
}

/** The picture of an item, or its text where the table has no pictures or this one is missing. */
export function picture(table, item, { large = false } = {}) {
  const text = (shown = item) => h("span.words", { class: large ? "large" : "", text: textOf(shown) });
  if (!table.images) return text();
  const instead = async () => {
    const words = text();
    image.replaceWith(words);
    const found = item.payload ? null : await post(
      path(table.name, "items", "get"), { ids: [item.id] },
    ).catch(() => null);
    if (found) words.replaceWith(text(itemsOf(found)[0]));
  };
  const image = h("img", { alt: `item ${String(item.id)}`, draggable: "false", decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 32));
  image.addEventListener("error", instead);
  imageAddress(table.name, item.id).then((address) => { image.src = address; }, instead);
  return image;
}

export const distanceText = (distance) => (
  distance === null || distance === undefined ? "" : figure(distance)
);

/**
 * How the page ranks by default: the best 200 by code, again by features. Codes of items that were taught are often
 * equal, and features then tell which answers are nearer.
 */
export const ranking = (info, k) => (info.keeps_features ? { rescore: Math.max(RESCORED, k) } : {});

let warned = false;

/** Items of a search answer's first query, or of T/items, one object each. */
export function itemsOf(answer, row = null) {
  const pick = (column) => (row === null ? column : column?.[row]);
  const columns = Object.entries(answer.fields ?? {}).map(([name, column]) => [name, pick(column) ?? []]);
  const ids = pick(answer.ids) ?? [];
  if (!warned && ids.some((id) => Number.isInteger(id) && !Number.isSafeInteger(id))) {
    warned = true;
    toast(
      "Some ids are above 2^53: a browser cannot tell them apart. Use the Python client for this table.",
      { kind: "error" },
    );
  }
  return ids.map((id, i) => ({
    id,
    distance: pick(answer.distances)?.[i] ?? null,
    label: pick(answer.labels)?.[i] ?? null,
    payload: pick(answer.payloads)?.[i] ?? null,
    fields: Object.fromEntries(columns.map(([name, column]) => [name, column[i] ?? null])),
    code: answer.codes?.[i] ?? null,
    version: answer.versions?.[i] ?? null,
  }));
}

/**
 * A grid of cards. Arrow keys move between cards, and one card only is a stop of the Tab key. A card is an element with
 * a button `.face`; make(item) builds it and update(card, item, place) shows the item's state.
 */
export class Grid {
  constructor({ label, make, update, texts = false }) {
    this.element = h(
      "div.grid",
      {
        class: texts ? "texts" : "", role: "group", "aria-label": label,
        on: { keydown: (e) => this.move(e), focusin: (e) => this.focused(e) },
      },
    );
    Object.assign(this, { make, update, items: [], cards: new Map() });
  }

  /** Shows these items. Cards that stay glide to their new places, new ones fade in. */
  show(items, { animate = false } = {}) {
    const before = new Map([...this.cards].map(([key, card]) => [key, card.getBoundingClientRect()]));
    const cards = new Map(
      items.map((item) => [keyOf(item.id), this.cards.get(keyOf(item.id)) ?? this.make(item)])
    );
    const current = this.element.querySelector(".face[tabindex='0']")?.closest(".card")?.dataset.id;
    this.items = items;
    this.cards = cards;
    this.element.replaceChildren(...cards.values());
    items.forEach((item, place) => this.update(cards.get(keyOf(item.id)), item, place));
    this.stop(cards.get(current) ?? cards.values().next().value);
    if (animate && !calm() && items.some((item) => before.has(keyOf(item.id)))) this.glide(before);
  }

  /** Shows the state of the same items again. */
  repaint() {
    this.items.forEach((item, place) => this.update(this.cards.get(keyOf(item.id)), item, place));
  }

  glide(before) {
    for (const [key, card] of this.cards) {
      const old = before.get(key);
      if (!old) {
        card.animate(
          [{ opacity: 0, transform: "scale(.8)" }, { opacity: 1, transform: "none" }],
          { duration: 450, delay: 250, fill: "backwards", easing: "ease-out" },
        );
        continue;
      }
      const now = card.getBoundingClientRect();
      const [dx, dy] = [old.left - now.left, old.top - now.top];
      if (dx || dy) card.animate(
        [{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }],
        { duration: 650, easing: "cubic-bezier(.3, 0, .1, 1)" },
      );
    }
  }

  /** Makes one card the stop of the Tab key. */
  stop(card) {
    for (const button of this.element.querySelectorAll(".card button, .card select")) button.tabIndex = -1;
    for (const button of card?.querySelectorAll("button, select") ?? []) button.tabIndex = 0;
  }

  focused(event) {
    const card = event.target.closest(".card");
    if (card) this.stop(card);
  }

  /** The item of the card that has the focus, or null. */
  current() {
    const id = document.activeElement?.closest(".card")?.dataset.id;
    return this.items.find((item) => keyOf(item.id) === id) ?? null;
  }

  move(event) {
    if (event.target.matches("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const cards = [...this.cards.values()];
    const place = cards.indexOf(event.target.closest(".card"));
    if (place < 0) return;
    const top = cards[0].offsetTop;
    const wide = Math.max(1, cards.findIndex((card) => card.offsetTop > top));
    const steps = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide, Home: -place,
      End: cards.length - 1 - place,
    };
    const next = cards[place + steps[event.key]];
    if (!(event.key in steps) || !next) return;
    event.preventDefault();
    next.querySelector(".face").focus();
  }
}
