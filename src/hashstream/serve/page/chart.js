// Small line charts in SVG: values under the pointer, and a sentence for screen readers.

import { fill, figure, h, svg } from "./dom.js";

const PAD = { top: 8, right: 8, bottom: 4, left: 4 };

/**
 * One chart. series: [{name, values: [number|null], kind}], all of one length; texts: what a place is called.
 * kind is a class of CSS: "one", "two". format(value) -> text.
 */
export class Chart {
  constructor({ title, format = figure, height = 90, low = null, high = null, empty = "no values yet" }) {
    Object.assign(this, { title, format, height, low, high, empty, series: [], texts: [] });
    this.values = h("div.values", {});
    this.svg = svg(
      "svg.chart",
      { role: "img", height, on: { pointermove: (e) => this.hover(e), pointerleave: () => this.read(null) } },
    );
    this.ends = h("div.ends", { "aria-hidden": "true" });
    this.blank = h("p.blank", { text: empty });
    this.element = h(
      "figure.figure", {}, h("figcaption", {}, h("span.name", { text: title }), this.values), this.svg,
      this.blank, this.ends,
    );
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(series, texts, ends = null) {
    Object.assign(this, { series, texts });
    this.draw();
    fill(this.ends, ends && ends.map((text) => h("span", { text })));
    const said = series.map(({ name, values }) => {
      const known = values.filter((v) => v !== null && v !== undefined);
      return known.length
        ? `${name || this.title} from ${this.format(known[0])} to ${this.format(known.at(-1))}` : "";
    });
    this.svg.setAttribute("aria-label", said.filter(Boolean).join("; ") || `${this.title}: ${this.empty}`);
  }

  draw() {
    const wide = this.element.clientWidth || 240;
    const n = this.texts.length;
    const known = this.series.flatMap((s) => s.values).filter((v) => v !== null && v !== undefined);
    this.svg.setAttribute("viewBox", `0 0 ${wide} ${this.height}`);
    this.svg.toggleAttribute("hidden", !known.length);
    this.blank.hidden = known.length > 0;
    if (!known.length) return void fill(this.values);
    let [low, high] = [this.low ?? Math.min(...known), this.high ?? Math.max(...known)];
    if (high - low < 1e-9) [low, high] = [
      low === 0 ? 0 : low - Math.abs(low) * 0.1, high === 0 ? 1 : high + Math.abs(high) * 0.1,
    ];
    this.x = (i) => PAD.left + (n < 2 ? 0.5 : i / (n - 1)) * (wide - PAD.left - PAD.right);
    this.y = (v) => PAD.top + (1 - (v - low) / (high - low)) * (this.height - PAD.top - PAD.bottom);
    const parts = [0, 0.5, 1].map(
      (share) => svg(
        "line.rule",
        { x1: 0, x2: wide, y1: this.y(low + share * (high - low)), y2: this.y(low + share * (high - low)) },
      )
    );
    for (const { values, kind } of this.series) {
      const points = values.map(
        (v, i) => (v === null || v === undefined ? null : [this.x(i), this.y(v)])
      ).filter(Boolean);
      if (!points.length) continue;
      const line = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      if (kind === "one") parts.push(
        svg("path.area", { d: `${line}L${points.at(-1)[0]} ${this.height}L${points[0][0]} ${this.height}Z` })
      );
      parts.push(
        svg("path.line", { d: line, class: kind }),
        svg("circle.end", { cx: points.at(-1)[0], cy: points.at(-1)[1], r: 3.5, class: kind }),
      );
    }
    this.cross = svg("line.cross", { y1: 0, y2: this.height, visibility: "hidden" });
    fill(this.svg, parts, this.cross);
    this.read(null);
  }

  hover(event) {
    const n = this.texts.length;
    if (!n || !this.cross) return;
    const box = this.svg.getBoundingClientRect();
    this.read(
      Math.max(
        0,
        Math.min(
          n - 1,
          Math.round(((event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right)) * (n - 1)),
        ),
      )
    );
  }

  /** Writes the values of one place, or the latest ones. */
  read(place) {
    this.cross?.setAttribute("visibility", place === null ? "hidden" : "visible");
    if (place !== null && this.x) for (const end of ["x1", "x2"]) this.cross.setAttribute(end, this.x(place));
    const at = (values) => (
      place === null ? values.findLast((v) => v !== null && v !== undefined) : values[place]
    );
    fill(
      this.values,
      place !== null && h("span.faint", { text: this.texts[place] }),
      this.series.map(
        ({ name, values, kind }) => h(
          "span.value", { class: kind }, name && h("span.key", { text: name }),
          h("b", { text: this.format(at(values) ?? null) }),
        )
      ),
    );
  }
}
