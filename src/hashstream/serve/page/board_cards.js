// The cards of a board: a picture with the class that it counts as, and a button for each class.

import { picture, swatch } from "./cards.js";
import { sameLabel } from "./choices.js";
import { labelText } from "./classes.js";
import { fill, h, keyOf } from "./dom.js";

const SHOWN = 10; // classes on a card; more are in a menu

/** Black or white, whichever reads better on a colour such as #0072b2. */
function inkOn(colour) {
  const part = (at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2;
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > 0.18 ? "#000" : "#fff";
}

function dye(element, classes, label) {
  const colour = label === null ? "var(--unlabelled)" : classes.colour(label);
  element.style.setProperty("--class", colour);
  element.style.setProperty("--ink", colour.startsWith("#") ? inkOn(colour) : "var(--text)");
}

/** A card without its state; `paintCard` shows that. */
export function makeCard(info, item) {
  return h(
    "div.card.choice", { "data-id": keyOf(item.id) },
    h("button.face", { type: "button" }, picture(info, item), h("span.tag", { "aria-hidden": "true" })),
    h("div.picks", { role: "group", "aria-label": `Class of item ${String(item.id)}` }),
  );
}

/** Shows what holds for a card: {kind, label}. labels: all classes; keys: the digit of each, or null. */
export function paintCard(card, item, { kind, label }, { classes, labels, keys }) {
  for (const name of ["open", "guess", "given", "out"]) card.classList.toggle(name, name === kind);
  dye(card, classes, label);
  const name = label === null ? { open: "open", out: "left out" }[kind] : labelText(label);
  const sign = { guess: "?", given: "✓" }[kind];
  const tag = [label !== null && swatch(classes, label), h("span", { text: name }), sign && h("i", { text: sign })];
  fill(card.querySelector(".tag"), tag);
  const fixed = item.guess !== null && !sameLabel(label, item.guess) ? `, corrected from ${labelText(item.guess)}` : "";
  const said = { open: "no class yet", out: "left out", guess: `${name}, a guess`, given: name + fixed }[kind];
  const face = card.querySelector(".face");
  face.setAttribute("aria-label", `item ${String(item.id)}: ${said}`);
  face.setAttribute("aria-pressed", String(kind === "out"));
  face.title = `${kind === "out" ? "Click to take it in again." : "Click to leave it out."}\n${item.why}`;
  const picks = card.querySelector(".picks");
  showPicks(picks, item, { classes, labels, keys, tabIndex: face.tabIndex });
  for (const one of picks.querySelectorAll("[data-label]")) {
    one.setAttribute("aria-pressed", String(label !== null && one.dataset.label === JSON.stringify(label)));
  }
  const menu = picks.querySelector("select");
  if (menu) menu.value = label === null || labels.indexOf(label) < SHOWN ? "" : JSON.stringify(label);
}

/** The classes of a card. They are built only where the classes have changed, so that the one in focus stays. */
function showPicks(picks, item, { classes, labels, keys, tabIndex }) {
  const shown = JSON.stringify(labels);
  if (picks.dataset.shown === shown) return;
  picks.dataset.shown = shown;
  const title = "A new class for this card (C)";
  const text = labels.length ? "+" : "+ name it";
  fill(
    picks,
    labels.slice(0, SHOWN).map((label, i) => pick(classes, label, keys[i])),
    labels.length > SHOWN && menuOf(item, labels.slice(SHOWN)),
    labels.length < SHOWN && h("button.pick.plus", { type: "button", text, title, "aria-label": title }),
  );
  for (const one of picks.children) one.tabIndex = tabIndex;
}

function pick(classes, label, key) {
  const name = labelText(label);
  const made = h(
    "button.pick",
    { type: "button", "data-label": JSON.stringify(label), title: key === null ? name : `${name} (key ${key})` },
    h("span", { text: name }), key !== null && key !== name && h("kbd", { text: key, "aria-hidden": "true" }),
  );
  dye(made, classes, label);
  return made;
}

function menuOf(item, labels) {
  return h(
    "select.pick", { "aria-label": `Another class of item ${String(item.id)}` },
    h("option", { value: "", text: "more …" }),
    labels.map((label) => h("option", { value: JSON.stringify(label), text: labelText(label) })),
  );
}
