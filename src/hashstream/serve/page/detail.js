// Everything about one item: a sheet over any view, with its id in the address.

import { itemsOf, labelMark, picture } from "./cards.js";
import { fill, h, notice, svg, toast } from "./dom.js";
import { change, link } from "./route.js";

/** The bits of a code, given as hex, as a pattern of squares, eight or sixteen in a row. */
export function bitPattern(hex, bits) {
  const wide = bits > 64 ? 16 : 8;
  const values = [...hex].flatMap(
    (digit) => [8, 4, 2, 1].map((bit) => Boolean(parseInt(digit, 16) & bit))
  ).slice(0, bits);
  const rows = Math.ceil(values.length / wide);
  const cells = values.map(
    (on, i) => svg(
      "rect",
      {
        x: (i % wide) * 10 + 1, y: Math.floor(i / wide) * 10 + 1, width: 8, height: 8, rx: 1.5,
        class: on ? "on" : "off",
      },
    )
  );
  return svg(
    "svg.bits",
    {
      viewBox: `0 0 ${wide * 10} ${rows * 10}`, role: "img", "aria-label": `code ${hex}`, width: wide * 11,
      height: rows * 11,
    },
    cells,
  );
}

const valueText = (value) => (
  value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value)
    : String(value)
);

export class Detail {
  constructor(context) {
    this.context = context;
    this.body = h("div.detail");
    this.dialog = h(
      "dialog.sheet.drawer",
      {
        "aria-label": "Details of the item",
        on: { close: () => this.closed(), click: (e) => e.target === this.dialog && this.dialog.close() },
      },
      this.body,
    );
    document.body.append(this.dialog);
  }

  closed() {
    if (this.id !== undefined) change({ item: null }, { remember: false });
    this.id = undefined;
  }

  /** Opens the sheet for an id, or closes it where there is none. */
  async show(id) {
    if (id === undefined || id === null) {
      this.id = undefined;
      return this.dialog.open && this.dialog.close();
    }
    this.id = id;
    try {
      const [item] = itemsOf(await this.context.items([id]));
      if (this.id === id) this.fill(item);
    } catch (problem) {
      fill(this.body, notice("This item cannot be shown", problem.message), this.closer());
    }
    return this.dialog.open || this.dialog.showModal();
  }

  closer() {
    return h("form", { method: "dialog" }, h("button", { text: "Close" }));
  }

  fill(item) {
    const { info, classes } = this.context;
    const rows = (pairs) => h(
      "dl.facts", {}, pairs.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", {}, value)]),
    );
    const newest = info.version === null || info.version === undefined || item.version === info.version;
    const age = newest ? "current" : `the current one is ${info.version}; a refresh re-encodes it`;
    const fields = Object.entries(item.fields);
    const copy = () => navigator.clipboard?.writeText(location.href).then(
      () => toast("The link is copied."),
      () => toast("The browser does not allow copying.", { kind: "error" }),
    );
    fill(
      this.body,
      h("h2", { text: `Item ${String(item.id)}` }),
      h("div.frame.large", {}, picture(info, item, { large: true })),
      h("div.row", {},
        h("a.pill.primary", { href: link(info.name, "search", { q: item.id }), text: "Search like this" }),
        h("a.pill", { href: link(info.name, "teach", { mode: "answers", q: item.id }), text: "Teach with this" }),
        h("button", { type: "button", text: "Copy link", on: { click: copy } })),
      rows([
        ["label", labelMark(classes, item.label)],
        ["version", h("span", { text: `${valueText(item.version)} (${age})` })],
        ...(
          item.code ? [
            ["code", h("span", {}, bitPattern(item.code, info.n_bits), h("code.hex", { text: item.code }))],
          ] : []
        ),
      ]),
      fields.length > 0 && [
        h("h3", { text: "Fields" }), rows(fields.map(([name, value]) => [name, valueText(value)])),
      ],
      item.payload && [
        h("h3", { text: "Payload" }),
        h("pre.payload", { tabindex: "0", text: JSON.stringify(item.payload, null, 2) }),
      ],
      this.closer(),
    );
  }
}
