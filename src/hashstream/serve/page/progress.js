// How teaching goes: the curve of mAP, labels of each class, classes that are mixed up, clicks.

import { swatch } from "./cards.js";
import { Chart } from "./chart.js";
import { labelText } from "./classes.js";
import { count, fill, h, percent, score } from "./dom.js";

const MOST_CLASSES = 12;

export class Progress {
  /** guesses: shown in the place of the answers that were right at first sight. */
  constructor(context, undo, guesses = null) {
    Object.assign(this, { context, undo, guesses });
    this.chart = new Chart(
      {
        title: "mAP of labelled items", format: score, height: 92, low: 0, high: 1,
        empty: "The curve starts when a few classes have labels.",
      }
    );
    this.first = new Chart(
      {
        title: "Right at first sight", format: percent, height: 64, low: 0, high: 1,
        empty: "How many answers are right, item by item: this should rise.",
      }
    );
    this.total = h("p.totals");
    this.classes = h("div.bars");
    this.confused = h("div");
    this.element = h(
      "aside.progress", { "aria-label": "Progress" },
      h("section.panel", {}, (guesses ?? this.first).element, this.chart.element, this.total),
      h("section.panel", {}, h("h2", { text: "Labels" }), this.classes, this.confused),
    );
  }

  /** Reads the curve and the counts again. Answers the points. */
  async load(again = 3) {
    const { points, classes } = await this.context.teaching();
    this.points = points;
    this.labelled = classes.reduce((sum, c) => sum + c.count, 0);
    const column = (name) => points.map((p) => p[name] ?? null);
    this.chart.show(
      [
        { name: "new labels", values: column("recent"), kind: "one" },
        { name: "all", values: column("map"), kind: "faint" },
      ],
      points.map((p) => `at ${count(p.labels)} labels`),
      points.length > 1 ? [
        `${count(points[0].labels)} labels`, `${count(points.at(-1).labels)} labels`,
      ] : null,
    );
    this.paint();
    // The service measures after it has answered: the newest point may still be on its way.
    clearTimeout(this.soon);
    const late = this.labelled > 0 && points.at(-1)?.labels !== this.labelled;
    if (late && again > 0) this.soon = setTimeout(() => this.load(again - 1).catch(() => {}), 1500);
    return points;
  }

  /** The latest mAP of labelled items, or null. */
  quality() {
    return this.points?.findLast((p) => p.map !== null)?.map ?? null;
  }

  paint() {
    this.guesses?.paint();
    const seen = this.undo.steps.map((step) => !step.board && step.seen).filter(Boolean);
    this.first.show(
      [{ name: "", values: seen.map(({ right, of }) => right / of), kind: "one" }],
      seen.map(({ right, of }, i) => `item ${i + 1}: ${right} of ${of}`),
    );
    const { classes, info } = this.context;
    const all = classes.all().sort(
      (a, b) => (classes.all().length > MOST_CLASSES ? classes.count(b) - classes.count(a) : 0)
    );
    const most = Math.max(1, ...all.map((label) => classes.count(label)));
    fill(
      this.total, h("b", { text: count(this.labelled) }), ` of ${count(info.n_items)} items have labels · `,
      h("b", { text: count(this.undo.clicks) }), " clicks so far",
    );
    fill(this.classes, all.length
      ? all.slice(0, MOST_CLASSES).map(
        (label) => h(
          "div.bar", {}, swatch(classes, label), h("span.name", { text: labelText(label) }),
          h(
            "span.track", {},
            h(
              "span.fill",
              {
                style: {
                  width: `${(100 * classes.count(label)) / most}%`, background: classes.colour(label),
                },
              },
            ),
          ),
          h("span.n", { text: count(classes.count(label)) }),
        )
      )
      : h("p.faint", { text: "No labels yet. Say what the first item is." }));
    if (all.length > MOST_CLASSES) {
      this.classes.append(h("p.faint", { text: `and ${count(all.length - MOST_CLASSES)} more classes` }));
    }
  }

  /** Which classes the search mixes up: [{a, b, share}]. */
  showConfused(pairs) {
    const { classes } = this.context;
    const one = (label) => h("span.label", {}, swatch(classes, label), labelText(label));
    fill(this.confused, pairs?.length > 0 && [
      h("h2", { text: "Mixed up most" }),
      h(
        "ul.pairs", {},
        pairs.slice(0, 3).map(
          ({ a, b, share }) => h("li", {}, one(a), " and ", one(b), h("span.n", { text: percent(share) }))
        ),
      ),
    ]);
  }
}
