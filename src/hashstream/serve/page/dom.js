// Small helpers to build the page. Data only ever becomes text nodes and attributes, never markup.

/** An element. props: class, text, attributes, `on` (event -> listener), `style` (custom properties and CSS names). */
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  return dress(element, props, classes, children);
}

/** The same for SVG. */
export function svg(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return dress(document.createElementNS("http://www.w3.org/2000/svg", name), props, classes, children);
}

function dress(element, props, classes, children) {
  if (classes.length) element.classList.add(...classes);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "on") for (
      const [event, listener] of Object.entries(value)
    ) element.addEventListener(event, listener);
    else if (key === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else if (key === "text") element.textContent = value;
    else if (key === "style") for (
      const [name, v] of Object.entries(value)
    ) element.style.setProperty(name, v);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false)
  );
  return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false)
  );
  return element;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const whole = new Intl.NumberFormat("en");

/** A count with separators: 12,345. */
export const count = (n) => (n === null || n === undefined ? "–" : whole.format(Math.round(n)));

/** A figure in three digits, or a dash where there is none. */
export function figure(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (Number.isInteger(x)) return whole.format(x);
  const size = Math.abs(x);
  return x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

/** A score between 0 and 1. */
export const score = (x) => (x === null || x === undefined ? "–" : x.toFixed(3));

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i += 1) n /= 1000;
  return `${i ? n.toPrecision(3) : n} ${units[i]}`;
}

export const percent = (x) => (
  x === null || x === undefined ? "–" : `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`
);

export const items = (n) => `${count(n)} ${n === 1 ? "item" : "items"}`;

/** "just now", "3 min ago": a time in seconds as people say it. */
export function ago(time) {
  const s = Math.max(0, Date.now() / 1000 - time);
  if (s < 5) return "just now";
  if (s < 90) return `${Math.round(s)} s ago`;
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  return new Date(time * 1000).toLocaleString();
}

/** A short message at the foot of the page; action: {text, run} adds a button. */
export function toast(text, { kind = "info", action = null, seconds = 6 } = {}) {
  const box = document.getElementById("toasts");
  const note = h("div.toast", { class: kind }, h("span", { text }));
  const close = () => note.remove();
  if (action) note.append(
    h("button.link", { type: "button", text: action.text, on: { click: () => (close(), action.run()) } })
  );
  note.append(
    h(
      "button.icon.small",
      { type: "button", "aria-label": "Close this message", text: "×", on: { click: close } },
    )
  );
  box.querySelectorAll(".info").forEach((old) => old.remove());
  while (box.children.length > 2) box.firstChild.remove();
  box.append(note);
  setTimeout(close, 1000 * (kind === "error" ? 2 * seconds : seconds));
}

/** A sentence in the place of content: nothing here yet, or an error, and what to do about it. */
export function notice(title, detail, ...actions) {
  return h(
    "div.notice", {}, h("h2", { text: title }), detail && h("p", { text: detail }),
    actions.length > 0 && h("div.row", {}, actions),
  );
}

/** A button with its key shown. */
export function button(text, run, { key = null, kind = "", title = null, disabled = false } = {}) {
  return h(
    "button", { type: "button", class: kind, title, disabled, on: { click: run } },
    text, key && h("kbd", { text: key, "aria-hidden": "true" }),
  );
}

/** Equality and names of ids: opaque JSON values. */
export const keyOf = (id) => JSON.stringify(id);
export const sameId = (a, b) => keyOf(a) === keyOf(b);
