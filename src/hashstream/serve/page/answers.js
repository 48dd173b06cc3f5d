// The cards and chips of Teach. view: the TeachView with marks, classes that were added, and whether the query is done.

import { distanceText, labelMark, picture, swatch } from "./cards.js";
import { labelText, sameLabel } from "./classes.js";
import { fill, h } from "./dom.js";

/** The card of an answer. */
export function answerCard(context, item) {
  const state = h("span.state", { "aria-hidden": "true" });
  return h(
    "div.card.teachable", { "data-id": JSON.stringify(item.id) },
    h("button.face", { type: "button" }, picture(context.info, item), state),
    h("div.foot", {}, h("span.mark"), h("span.distance", { text: distanceText(item.distance) })),
  );
}

/** Shows on a card what holds for its answer. */
export function paintAnswer(view, card, item) {
  const { classes } = view.context;
  const { own } = view.marks;
  const held = view.marks.of(item);
  const open = held.by !== "mark" && (own === undefined || (view.done && held.by === "default"));
  const kind = open ? "open" : held.same ? "same" : "other";
  const label = open ? item.label : held.label;
  for (const name of ["open", "same", "other"]) card.classList.toggle(name, name === kind);
  card.classList.toggle("stored", item.label !== null && sameLabel(item.label, held.label));
  card.style.setProperty("--class", open ? "var(--unlabelled)" : classes.colour(label));
  card.querySelector(".state").textContent = { open: "", same: "✓", other: "✕" }[kind];
  card.querySelector(".distance").textContent = distanceText(item.distance);
  const face = card.querySelector(".face");
  const said = { open: "", same: "same class, ", other: "other class, " }[kind] + labelText(label);
  face.setAttribute("aria-label", `item ${String(item.id)}: ${said}`);
  face.setAttribute("aria-pressed", String(kind === "other"));
  const shown = JSON.stringify([kind, label, own ?? null, view.added.length, classes.counts.size]);
  if (card.dataset.shown === shown) return; // a list that the reader has open stays open
  card.dataset.shown = shown;
  const mark = kind === "other" ? chooser(view, item, label) : labelMark(classes, label);
  fill(card.querySelector(".mark"), mark);
}

/** The class of a wrong answer. */
function chooser(view, item, label) {
  const { classes } = view.context;
  const others = classes.all(view.added).filter((one) => !sameLabel(one, view.marks.own));
  const select = h(
    "select.which",
    {
      "aria-label": `Class of item ${String(item.id)}`, tabindex: "-1",
      on: { change: (e) => view.give(item, JSON.parse(e.target.value)) },
    },
    h("option", { value: "null", text: "which?" }),
    others.map((one) => h("option", { value: JSON.stringify(one), text: labelText(one) })),
  );
  select.value = JSON.stringify(label);
  return h("span.label", {}, label !== null && swatch(classes, label), select);
}

/** A chip for each class, one of which is that of the query. */
export function classChips(view) {
  const { classes } = view.context;
  const { own } = view.marks;
  const guess = view.guess !== null && view.query.label === null ? [view.guess] : [];
  const labels = classes.all([...view.added, ...(own === undefined ? [] : [own]), ...guess]);
  if (!labels.length) return h("p.faint", { text: "No classes yet: press a digit, or name one." });
  return labels.map((label) => {
    const key = classes.keyOf(label, view.added);
    const guessed = guess.some((one) => sameLabel(one, label));
    return h(
      "button.chip",
      {
        type: "button", role: "radio", "aria-checked": String(sameLabel(label, own)),
        class: guessed ? "guess" : "", title: guessed ? "The search would say this" : null,
        on: { click: () => view.choose(label) },
      },
      swatch(classes, label), h("span", { text: labelText(label) }),
      key !== null && key !== labelText(label) && h("kbd", { text: key, "aria-hidden": "true" }),
    );
  });
}
