// Health: figures of the table over time, what a refresh would bring, recent events.

import { Chart } from "./chart.js";
import { ago, button, bytes, count, figure, fill, h, items, notice, percent, score, toast } from "./dom.js";

const SECONDS = 4; // between two questions to the service, while the view is in front
const MOST_POINTS = 720;
const milliseconds = (v) => (v === null ? "–" : `${figure(v)} ms`);

/** Small multiples: [title, format, hint, [[name, column], ...], options]. */
const CHARTS = [
  ["Items", count, "stored in the table", [["", "items"]]],
  [
    "Search time", milliseconds, "median, and the slowest of a hundred",
    [["p50", "search_ms_p50"], ["p99", "search_ms_p99"]], { low: 0 },
  ],
  [
    "Quality (mAP)", score, "answers of the table's own sample, and after a refresh",
    [["now", "map"], ["refreshed", "fresh_map"]], { low: 0, high: 1 },
  ],
  ["Stale items", count, "codes of older versions", [["", "stale"]], { low: 0 }],
  ["Versions", count, "of the hash functions in use", [["", "versions"]], { low: 0 }],
  [
    "Bit flips", percent, "stored bits that the current functions would set otherwise", [["", "bit_flips"]],
    { low: 0 },
  ],
  [
    "Shift of classes", figure, "drift of the data: about 0 where nothing moves", [["", "centre_shift"]],
    { low: 0 },
  ],
  ["Memory", bytes, "codes, ids, labels, fields", [["", "memory_bytes"]], { low: 0 }],
  ["Disk", bytes, "all files of the table", [["", "disk_bytes"]], { low: 0 }],
  ["Calls", count, "in each interval", [["searches", "searches"], ["writes", "writes"]], { low: 0 }],
];

const EVENTS = {
  commit: (e) => [
    e.added && `${items(e.added)} added`, e.removed && `${items(e.removed)} removed`,
    e.labelled && `${items(e.labelled)} labelled`,
    e.learned && `${items(e.learned)} learned`, e.recoded && `${items(e.recoded)} re-encoded`,
  ].filter(Boolean).join(", ") || "a commit without changes",
  learned: (e) => `the functions changed${e.version === undefined ? "" : `: version ${e.version}`}`,
  table: (e) => `table ${e.table} ${e.what}`,
};

export class HealthView {
  constructor(context) {
    this.context = context;
    this.points = [];
    this.tiles = h("div.tiles");
    this.live = h("span.live");
    this.refreshText = h("p");
    this.refreshButton = button("Refresh now", () => this.refresh(), { key: "R", kind: "primary" });
    this.result = h("p.faint", { role: "status" });
    this.charts = CHARTS.map(([title, format, hint, columns, options]) => {
      const chart = new Chart({ title, format, height: 74, ...options });
      return { chart, columns, panel: h("section.panel", {}, chart.element, h("p.hint", { text: hint })) };
    });
    this.list = h("ul.events", { tabindex: "0", "aria-label": "Recent events" });
    this.body = h(
      "div", {},
      h("div.health-top", {},
        h(
          "section.panel", {}, h("div.row.between", {}, h("h1", { text: context.info.name }), this.live),
          this.tiles,
        ),
        h(
          "section.panel", {}, h("h2", { text: "What a refresh would bring" }), this.refreshText,
          h("div.row", {}, this.refreshButton), this.result,
        )),
      h("div.multiples", {}, this.charts.map(({ panel }) => panel)),
      h("section.panel.below", {}, h("h2", { text: "Recent events" }), this.list),
    );
    this.element = h("div", {}, this.body);
    this.keys = [
      { keys: ["r"], shown: "R", text: "refresh: re-encode stale items now", run: () => this.refresh() },
    ];
  }

  async update() {
    this.onLive(this.context.live);
    this.showEvents();
    await this.poll();
    this.timer = setInterval(() => document.visibilityState === "visible" && this.poll(), 1000 * SECONDS);
  }

  leave() {
    clearInterval(this.timer);
    clearTimeout(this.soon);
  }

  async poll() {
    if (this.polling) return;
    this.polling = true;
    try {
      const since = this.points.at(-1)?.time;
      const health = await this.context.get("health", { query: { since } });
      const fresh = health.points.filter((p) => since === undefined || p.time > since);
      this.points = [...this.points, ...fresh].slice(-MOST_POINTS);
      if (!this.body.isConnected) fill(this.element, this.body);
      this.show(health.refresh);
    } catch (problem) {
      fill(
        this.element,
        notice(
          "The health of this table cannot be read", problem.message, button("Try again", () => this.poll()),
        ),
      );
    } finally {
      this.polling = false;
    }
  }

  show(refresh) {
    const { info } = this.context;
    const last = this.points.at(-1);
    const tile = (name, value, hint) => h(
      "div.tile", { title: hint }, h("b", { text: value }), h("span.faint", { text: name }),
    );
    fill(
      this.tiles,
      tile(
        "items", count(last?.items ?? info.n_items),
      ), tile("bits per code", count(info.n_bits)), tile("version", count(info.version)),
      tile(
        "stale", last?.items ? percent((last.stale ?? 0) / last.items) : "–",
        "share of codes of older versions",
      ),
      tile("mAP", score(last?.map)), tile(
        "search, median", milliseconds(last?.search_ms_p50 ?? null),
      ), tile("commits", count(info.commits)),
    );
    const texts = this.points.map((p) => new Date(p.time * 1000).toLocaleTimeString());
    const ends = texts.length > 1 ? [texts[0], texts.at(-1)] : null;
    for (const { chart, columns } of this.charts) {
      chart.show(
        columns.map(
          ([name, column], i) => (
            { name, values: this.points.map((p) => p[column] ?? null), kind: i ? "two" : "one" }
          )
        ),
        texts, ends,
      );
    }
    if (refresh) this.showRefresh(refresh);
    this.showEvents();
  }

  showRefresh({ stale, map, fresh_map: after, reason }) {
    const now = map ?? null;
    const gain = now !== null && after !== null && after !== undefined
      ? ` mAP ${score(now)} → ${score(after)}.`
      : reason ? ` The gain in mAP is not known: ${reason}.` : "";
    this.refreshText.textContent = stale ? `${items(stale)} would be re-encoded.${gain.replace("..", ".")}`
      : `Nothing: every code is of the current version.`;
    this.refreshButton.disabled = this.busy || !stale || this.context.info.read_only;
  }

  async refresh() {
    if (this.busy || this.refreshButton.disabled) return;
    this.busy = true;
    this.refreshButton.disabled = true;
    const before = this.points.at(-1)?.map ?? null;
    try {
      const { recoded } = await this.context.write("refresh", { budget: null });
      await this.poll();
      const after = this.points.at(-1)?.map ?? null;
      const gain = before !== null && after !== null ? ` mAP ${score(before)} → ${score(after)}.` : "";
      this.result.textContent = `${items(recoded)} re-encoded.${gain}`;
    } catch (problem) {
      toast(problem.message, { kind: "error" });
    } finally {
      this.busy = false;
    }
  }

  showEvents() {
    const events = this.context.events.filter(({ kind }) => kind !== "refreshed"); // its commit says the same
    fill(this.list, events.length
      ? events.slice(0, 30).map(
        (e) => h(
          "li", {}, h("time", { text: ago(e.time) }),
          h("span", { text: (EVENTS[e.kind] ?? (() => e.kind))(e) }),
        )
      )
      : h(
        "li", {}, h("time", { text: "–" }),
        h("span", { text: "Nothing has happened since this page was opened." }),
      ));
  }

  onLive(live) {
    this.live.classList.toggle("on", live);
    this.live.textContent = live ? "live" : "not connected to events; trying again";
  }

  onEvent() {
    this.showEvents();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.poll(), 300);
  }
}
