// Map: the table's sample in two dimensions. Near means alike. State in the address: only (the classes that are shown).

import { labelMark, picture, swatch } from "./cards.js";
import { labelText } from "./classes.js";
import { button, calm, count, fill, h, items, keyOf, notice } from "./dom.js";
import { aligned, fit, spread } from "./geometry.js";
import { change, go } from "./route.js";
import { Scatter } from "./scatter.js";

const MOST = 1000;
const MILLISECONDS = 900;

export class MapView {
  constructor(context) {
    this.context = context;
    this.canvas = h(
      "canvas",
      {
        tabindex: "0", role: "application",
        "aria-label": "Map of items: arrow keys move between items, Enter opens one in Search",
      },
    );
    this.tip = h("div.tip", { hidden: true });
    this.stage = h("div.stage", {}, this.canvas, this.tip);
    this.legend = h("div.legend", { role: "group", "aria-label": "Classes that are shown" });
    this.note = h("p.faint", { "aria-live": "polite" });
    this.scatter = new Scatter(this.canvas, context.classes);
    this.element = h(
      "div.map-columns", {}, this.stage,
      h("aside.panel", { "aria-label": "Legend" }, h("h2", { text: "Classes" }), this.legend, this.note),
    );
    const on = (name, run) => this.canvas.addEventListener(name, run);
    on("pointermove", (e) => this.point(this.scatter.nearest(e.offsetX, e.offsetY)));
    on("pointerleave", () => this.point(-1));
    on("click", (e) => this.open(this.scatter.nearest(e.offsetX, e.offsetY)));
    on("keydown", (e) => this.step(e));
    on("blur", () => this.point(-1));
    this.sized = new ResizeObserver(() => this.scatter.draw());
    this.sized.observe(this.stage);
    this.themed = () => this.scatter.draw();
    addEventListener("theme", this.themed);
    this.keys = [
      { shown: "← ↑ → ↓", text: "on the map: to the next item in this direction" },
      { shown: "Enter", text: "on the map: search like the item" },
      { keys: ["g"], shown: "G", text: "go to the map", run: () => this.canvas.focus() },
      { keys: ["a"], shown: "A", text: "show all classes", run: () => change({ only: null }) },
    ];
  }

  async update(state) {
    this.only = Array.isArray(state.only) ? state.only.map((label) => JSON.stringify(label)) : null;
    if (this.map) return this.paint();
    return this.load();
  }

  leave() {
    this.gone = true;
    this.sized.disconnect();
    clearTimeout(this.soon);
    removeEventListener("theme", this.themed);
  }

  async load() {
    try {
      const map = await this.context.get("map", { query: { n: MOST } });
      await this.context.teaching().catch(() => {});
      if (this.gone) return;
      if (!map.ids.length) return void fill(
        this.element,
        notice(
          "There is nothing to draw yet", "The map shows a sample of the table's items: store some first.",
        ),
      );
      this.show(map);
    } catch (problem) {
      if (!this.gone) fill(
        this.element,
        notice("The map cannot be drawn", problem.message, button("Try again", () => this.load())),
      );
    }
  }

  /** Takes a new map; items that were on the old one move to their new places. */
  show(map) {
    const keys = map.ids.map(keyOf);
    const places = fit(map.x, map.y);
    const index = this.map && new Map(this.map.keys.map((key, i) => [key, i]));
    const raw = index ? aligned(places, keys.map((key) => this.map.raw[index.get(key)] ?? null)) : places;
    const next = spread(raw);
    const old = index && new Map([...index].map(([key, i]) => [key, this.map.places[i]]));
    const from = next.map((place, i) => old?.get(keys[i]) ?? place);
    const offsets = this.scatter.spreadOut(next);
    const offsetsBefore = old && new Map(this.map.keys.map((key, i) => [key, this.map.offsets[i]]));
    const offsetsFrom = keys.map((key, i) => offsetsBefore?.get(key) ?? offsets[i]);
    const isNew = keys.map((key) => Boolean(old) && !old.has(key));
    this.map = { ...map, keys, raw, places: next, offsets };
    this.paint();
    const start = performance.now();
    const still = !old || calm();
    const frame = (now) => {
      const t = still ? 1 : Math.min(1, Math.max(0, (now - start) / MILLISECONDS));
      const eased = t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2;
      const between = (a, b) => b.map(
        ([x, y], i) => [a[i][0] + (x - a[i][0]) * eased, a[i][1] + (y - a[i][1]) * eased]
      );
      this.scatter.move(
        between(from, next), isNew.map((fresh) => (fresh ? eased : 1)), between(offsetsFrom, offsets),
      );
      if (t < 1 && !this.gone) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  paint() {
    const { map, only } = this;
    const { classes } = this.context;
    const counts = new Map();
    for (
      const label of map.labels
    ) counts.set(JSON.stringify(label ?? null), (counts.get(JSON.stringify(label ?? null)) ?? 0) + 1);
    const without = counts.get("null") ?? 0;
    const labels = classes.all(
      [...counts.keys()].map((key) => JSON.parse(key)).filter((label) => label !== null)
    ).filter((label) => counts.has(JSON.stringify(label)));
    const entry = (label, n) => {
      const key = JSON.stringify(label);
      return h(
        "button",
        {
          type: "button", "aria-pressed": String(!only || only.includes(key)),
          title: "Show or hide; with Shift: this one only",
          on: { click: (e) => this.filter(key, e.shiftKey, [...counts.keys()]) },
        },
        swatch(classes, label), h("span", { text: label === null ? "no label" : labelText(label) }),
        h("span.n", { text: count(n) }),
      );
    };
    fill(
      this.legend, labels.map((label) => entry(label, counts.get(JSON.stringify(label)))),
      without > 0 && entry(null, without),
    );
    const version = map.version === null ? "" : `, functions of version ${count(map.version)}`;
    const hint = labels.length ? "" : " No labels yet: teach, and colours appear.";
    const sample = `${items(map.ids.length)} of ${count(this.context.info.n_items)} as a sample${version}.`;
    this.note.textContent = `${sample} Shift-click shows one class only.${hint}`;
    this.scatter.show(
      map.labels, map.labels.map((label) => !only || only.includes(JSON.stringify(label ?? null))),
    );
  }

  filter(key, alone, all) {
    const shown = new Set(this.only ?? all);
    if (alone) return change(
      { only: this.only?.length === 1 && this.only[0] === key ? null : [JSON.parse(key)] }
    );
    if (shown.has(key)) shown.delete(key);
    else shown.add(key);
    return change({ only: all.every((k) => shown.has(k)) ? null : [...shown].map((k) => JSON.parse(k)) });
  }

  /** Shows the thumbnail of one point, or none. */
  point(place) {
    if (place === this.pointed) return;
    this.pointed = place;
    this.scatter.light(place);
    this.tip.hidden = place < 0;
    if (place < 0) return;
    const { info, classes } = this.context;
    const id = this.map.ids[place];
    fill(
      this.tip, info.images && h("div.frame", {}, picture(info, { id })),
      h("strong", { text: `Item ${String(id)}` }), labelMark(classes, this.map.labels[place] ?? null),
    );
    const [x, y] = this.scatter.pixel(place);
    const box = this.stage.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, x + 140 > box.width ? x - 136 : x + 14)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(y - 20, box.height - (info.images ? 180 : 70)))}px`;
    this.canvas.setAttribute(
      "aria-label",
      `Map. Item ${String(id)}, ${labelText(this.map.labels[place] ?? null)}. Enter opens it in Search.`,
    );
  }

  step(event) {
    const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    if (event.key === "Enter" && this.pointed >= 0) return this.open(this.pointed);
    if (!(event.key in ways)) return undefined;
    event.preventDefault();
    const { clientWidth: w, clientHeight: tall } = this.canvas;
    return this.point(
      this.pointed >= 0 ? this.scatter.towards(
        this.pointed, ways[event.key],
      ) : this.scatter.nearest(w / 2, tall / 2, Infinity)
    );
  }

  open(place) {
    if (place >= 0) go(this.context.info.name, "search", { q: this.map.ids[place] });
  }

  onEvent(kind) {
    if (kind === "table") return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.load(), 600);
  }
}
