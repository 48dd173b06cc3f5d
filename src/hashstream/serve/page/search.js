// Search: by an item, a file or numbers; filters, pages, details. The state is in the address: q (id) or v (a kept
// vector), where, page, k, codes (rank by codes alone), soft.

import { postFile } from "./api.js";
import { distanceText, Grid, itemsOf, labelMark, picture, ranking } from "./cards.js";
import { button, count, fill, h, items, notice, sameId, toast } from "./dom.js";
import { FilterForm } from "./filter.js";
import { change, link } from "./route.js";
import { keep, readNpy, readText, recall } from "./vectors.js";

const SIZES = [12, 24, 48, 96];

export class SearchView {
  constructor(context) {
    this.context = context;
    this.query = h("section.panel.query", { "aria-label": "Query" });
    this.filter = new FilterForm(
      { info: context.info, classes: context.classes, onApply: (where) => change({ where, page: 0 }) }
    );
    this.options = h("div.options");
    this.title = h("h1", { tabindex: "-1" });
    this.note = h("p.faint", { "aria-live": "polite" });
    this.grid = new Grid(
      {
        label: "Items", texts: !context.info.images, make: (item) => this.card(item),
        update: (card, item) => this.paint(card, item),
      }
    );
    this.pages = h("nav.pages", { "aria-label": "Pages" });
    this.body = h("div.body", {}, this.grid.element);
    this.filterBox = h("details.panel", {}, h("summary", { text: "Filter" }), this.filter.element);
    this.element = h(
      "div.columns", {},
      h(
        "div.side", {}, this.query, this.filterBox,
        h("details.panel", {}, h("summary", { text: "Options" }), this.options),
      ),
      h("div.content", {}, h("div.head", {}, this.title, this.note), this.body, this.pages),
    );
    this.keys = [
      { shown: "← ↑ → ↓", text: "move between cards" },
      { shown: "Enter", text: "search like the card" },
      { keys: ["i"], shown: "I", text: "details of the card", run: () => this.openDetails() },
      { keys: ["n"], shown: "N", text: "next page", run: () => this.turn(1) },
      { keys: ["p"], shown: "P", text: "previous page", run: () => this.turn(-1) },
      { keys: ["f"], shown: "F", text: "filter", run: () => this.openFilter() },
      { keys: ["b"], shown: "B", text: "browse all items", run: () => change({ q: null, v: null, page: 0 }) },
    ];
  }

  async update(state) {
    this.state = state;
    this.number = (this.number ?? 0) + 1;
    const number = this.number;
    this.size = SIZES.includes(state.k) ? state.k : 24;
    this.page = Math.max(0, Math.floor(state.page ?? 0));
    this.filter.set(state.where ?? null);
    if (state.where) this.filterBox.open = true;
    this.showOptions();
    this.element.setAttribute("aria-busy", "true");
    try {
      await this.load(number);
    } catch (problem) {
      if (number === this.number) this.fail(problem);
    } finally {
      if (number === this.number) this.element.removeAttribute("aria-busy");
    }
  }

  async load(number) {
    const { state, context, size } = this;
    const where = state.where ?? null;
    const offset = this.page * size;
    const vector = state.v ? recall(state.v) : null;
    if (state.v && !vector) {
      this.showStart();
      return this.say(
        "The vector of this link is not in this browser",
        "A file is not part of a link. Drop the file again, or start from an item.",
      );
    }
    if (state.q === undefined && !vector) {
      const [page] = await Promise.all(
        [context.get("ids", { query: { where, offset, limit: size } }), this.showStart()]
      );
      const found = itemsOf(await context.items(page.ids));
      return number === this.number && this.showItems(
        found, page.total, where ? "Items that match" : "Pick an item to search like it",
      );
    }
    const fields = context.info.images ? ["labels"] : ["labels", "fields", "payloads"];
    const question = {
      ...(vector ? { vectors: [vector.vector] } : { like: [state.q] }),
      k: size, offset, where, include: fields, asymmetric: Boolean(state.soft),
      ...(!state.codes && ranking(context.info, size + offset)),
    };
    const [answer, total] = await Promise.all([
      context.post("search", question),
      where ? context.get("count", { query: { where } }).then((c) => c.count) : context.info.n_items,
      vector ? this.showVector(vector) : this.showQuery(state.q),
    ]);
    if (number !== this.number) return undefined;
    return this.showItems(
      itemsOf(answer, 0), total, vector ? `Nearest to ${vector.title}` : `Nearest to item ${String(state.q)}`,
    );
  }

  showItems(found, total, title) {
    const { state, size, page, context } = this;
    const searching = state.q !== undefined || state.v;
    this.title.textContent = title;
    if (!found.length) {
      if (!context.info.n_items) return this.say(
        "This table has no items yet",
        `Store some: client.table("${context.info.name}").ingest(ids, vectors), or POST …/items.`,
      );
      if (page) return this.say(
        "There is no such page", "Go back to the first page.",
        button("First page", () => change({ page: 0 })),
      );
      return this.say(
        "Nothing matches this filter", "Change a condition, or clear the filter.",
        button("Clear the filter", () => change({ where: null, page: 0 })),
      );
    }
    const first = page * size + 1;
    const which = `${state.where ? " that match" : ""}${searching ? ", nearest first" : ""}`;
    this.note.textContent = `${count(first)}–${count(first + found.length - 1)} of ${items(total)}${which}`;
    fill(this.body, this.grid.element);
    this.grid.show(found, { animate: searching });
    const last = Math.max(0, Math.ceil(total / size) - 1);
    fill(this.pages, (page > 0 || page < last) && [
      button("Previous", () => this.turn(-1), { key: "P", disabled: page === 0 }),
      h("span", { text: `page ${count(page + 1)} of ${count(last + 1)}` }),
      button("Next", () => this.turn(1), { key: "N", disabled: page >= last }),
    ]);
    this.last = last;
    return undefined;
  }

  say(title, detail, ...actions) {
    this.note.textContent = "";
    fill(this.pages);
    this.last = 0;
    this.grid.show([]);
    fill(this.body, notice(title, detail, ...actions));
  }

  fail(problem) {
    this.title.textContent = "That search did not work";
    this.say(
      "The service says", problem.message,
      button("Start again", () => change({ q: null, v: null, where: null, page: 0 })),
    );
  }

  turn(step) {
    const page = this.page + step;
    if (page < 0 || page > (this.last ?? 0)) return false;
    return change({ page });
  }

  card(item) {
    const { context } = this;
    const search = () => change({ q: item.id, v: null, page: 0 });
    return h(
      "div.card", { "data-id": JSON.stringify(item.id) },
      h(
        "button.face", { type: "button", title: "Search like this", on: { click: search } },
        picture(context.info, item), h("span.badge", { text: "query" }),
      ),
      h("div.foot", {}, h("span.mark"), h("span.distance")),
      h(
        "button.icon.small.more",
        {
          type: "button", title: "Details (I)", "aria-label": `Details of item ${String(item.id)}`, text: "i",
          on: { click: () => change({ item: item.id }) },
        },
      ),
    );
  }

  paint(card, item) {
    const own = this.state.q !== undefined && sameId(item.id, this.state.q);
    card.classList.toggle("own", own);
    card.querySelector(".badge").hidden = !own;
    fill(card.querySelector(".mark"), labelMark(this.context.classes, item.label));
    const distance = card.querySelector(".distance");
    distance.textContent = item.distance === null ? String(item.id) : distanceText(item.distance);
    const byCode = this.state.codes || !this.context.info.keeps_features;
    const unit = byCode ? "bits that differ" : "cosine distance of features";
    distance.title = item.distance === null ? "id" : unit;
    const label = item.label === null ? "" : `, label ${String(item.label)}`;
    const far = item.distance === null ? "" : `, distance ${distanceText(item.distance)}`;
    const said = `Search like item ${String(item.id)}${label}${far}`;
    card.querySelector(".face").setAttribute("aria-label", said);
  }

  openDetails() {
    const item = this.grid.current() ?? this.grid.items[0];
    return item ? change({ item: item.id }) : false;
  }

  openFilter() {
    this.filterBox.open = true;
    if (!this.filter.rows.children.length && !this.filter.isRaw) return this.filter.add(true);
    return this.filter.element.querySelector("select, textarea:not([hidden])")?.focus();
  }

  showOptions() {
    const { state } = this;
    const check = (name, text, title) => h(
      "label.check", { title },
      h(
        "input",
        {
          type: "checkbox", checked: Boolean(state[name]),
          on: { change: (e) => change({ [name]: e.target.checked, page: 0 }) },
        },
      ),
      text,
    );
    const size = h(
      "select", { on: { change: (e) => change({ k: Number(e.target.value), page: 0 }) } },
      SIZES.map((n) => h("option", { value: n, text: n, selected: n === this.size })),
    );
    fill(
      this.options,
      h("label.check", {}, "Items on a page", size),
      this.context.info.keeps_features && check(
        "codes", "Rank by codes alone", "Otherwise the best 200 by code are ranked again by their features",
      ),
      check("soft", "Weigh bits by how sure the query is of them", "Asymmetric search: slower, fewer ties"),
    );
  }

  async showQuery(id) {
    const { context } = this;
    const [item] = itemsOf(await context.items([id]));
    const to = { mode: "answers", q: id };
    fill(
      this.query,
      h(
        "button.frame.large",
        {
          type: "button", title: "Details", "aria-label": `Details of item ${String(id)}`,
          on: { click: () => change({ item: id }) },
        },
        picture(context.info, item, { large: true }),
      ),
      h(
        "div.row.between", {}, h("strong", { text: `Item ${String(id)}` }),
        labelMark(context.classes, item.label),
      ),
      h(
        "div.row", {},
        h("a.pill.primary", { href: link(context.info.name, "teach", to), text: "Teach with this" }),
        button("Other query", () => change({ q: null, v: null, page: 0 }), { key: "B" }),
      ),
    );
  }

  showVector({ vector, title, picture: address }) {
    const first = vector.slice(0, 3).map((v) => v.toPrecision(3)).join(", ");
    const numbers = `${title}: ${count(vector.length)} numbers, from ${first} …`;
    fill(
      this.query,
      address
        ? h("div.frame.large", {}, h("img", { src: address, alt: title }))
        : h("p.faint", { text: numbers }),
      h(
        "div.row.between", {}, h("strong", { text: title }),
        button("Other query", () => change({ v: null, page: 0 }), { key: "B" }),
      ),
    );
  }

  /** The ways to begin: a file, numbers, an id. */
  showStart() {
    const { info } = this.context;
    const width = info.n_features ? ` · ${info.n_features} numbers` : "";
    const kinds = `${info.network ? "image, " : ""}.npy, JSON, CSV${width}`;
    const file = h(
      "input",
      {
        type: "file", class: "hidden", id: "file",
        accept: `${info.network ? "image/*," : ""}.npy,.json,.csv,.txt`,
        on: { change: (e) => this.takeFile(e.target.files[0]) },
      },
    );
    const drop = h("label.drop", {
      for: "file",
      on: {
        dragover: (e) => (e.preventDefault(), drop.classList.add("over")),
        dragleave: () => drop.classList.remove("over"), drop: (e) => this.dropped(e, drop),
      },
    },
      h("span.big", { text: "⤓", "aria-hidden": "true" }),
      h(
        "span", {}, h("strong", { text: info.network ? "Drop an image or a vector" : "Drop a vector" }),
        h("br"), "or choose a file", h("br"),
        h("small.faint", { text: kinds }),
      ));
    const numbers = h(
      "textarea",
      {
        rows: 2, spellcheck: "false", placeholder: "[0.1, 0.2, …]", "aria-label": "A vector as JSON or CSV",
      },
    );
    const id = h(
      "input",
      {
        type: info.ids === "str" ? "text" : "number", required: true, placeholder: "id",
        "aria-label": "Id of an item",
      },
    );
    const goTo = (e) => (
      e.preventDefault(), change({ q: info.ids === "str" ? id.value : Number(id.value), v: null, page: 0 })
    );
    fill(
      this.query, file, drop,
      h("form.row", { on: { submit: goTo } }, id, h("button", { text: "Search by id" })),
      h(
        "details", {}, h("summary", { text: "Paste numbers" }), numbers,
        button("Search", () => this.takeText(numbers.value, "the pasted vector")),
      ),
    );
  }

  dropped(event, drop) {
    event.preventDefault();
    drop.classList.remove("over");
    const file = event.dataTransfer.files[0];
    return file ? this.takeFile(file) : this.takeText(event.dataTransfer.getData("text"), "the dropped text");
  }

  async takeFile(file) {
    if (!file) return;
    try {
      if (file.type.startsWith("image/")) {
        if (!this.context.info.network) throw new Error(
          "This table has no network for images: drop a vector, as an .npy, JSON or CSV file."
        );
        const { vector } = await postFile(this.context.path("embed"), file);
        this.searchVector(vector, file.name, URL.createObjectURL(file));
      } else if (file.name.endsWith(".npy")) this.searchVector(readNpy(await file.arrayBuffer()), file.name);
      else this.takeText(await file.text(), file.name);
    } catch (error) {
      toast(error.message, { kind: "error" });
    }
  }

  takeText(text, title) {
    try {
      this.searchVector(readText(text), title);
    } catch (error) {
      toast(error.message, { kind: "error" });
    }
  }

  searchVector(vector, title, address = null) {
    const expected = this.context.info.n_features;
    if (expected && vector.length !== expected) throw new Error(
      `${title} has ${count(vector.length)} numbers; the items of this table have ${count(expected)}.`
    );
    change({ v: keep(vector, title, address), q: null, page: 0 });
  }

  onEvent(kind) {
    if (kind === "commit" && !this.grid.items.length) this.update(this.state);
  }
}
