// How many guesses were right on each board: one bar for each, the latest at the right. They should grow.

import { fill, h } from "./dom.js";

const MOST = 12;

export class Guesses {
  constructor(undo) {
    this.undo = undo;
    this.latest = h("b");
    this.bars = h("div.boards", { role: "img" });
    this.blank = h("p.blank", { text: "How many guesses were right, board by board: this should rise." });
    const caption = h("figcaption", {}, h("span.name", { text: "Guesses right" }), this.latest);
    this.element = h("figure.figure", {}, caption, this.bars, this.blank);
  }

  paint() {
    const boards = this.undo.steps.filter(({ board, seen }) => board && seen).map(({ seen }) => seen);
    const shown = boards.slice(-MOST);
    const said = shown.map(({ right, of }) => `${right} of ${of}`);
    this.latest.textContent = said.at(-1) ?? "";
    this.blank.hidden = shown.length > 0;
    this.bars.hidden = !shown.length;
    this.bars.setAttribute("aria-label", `Guesses right, board by board: ${said.join(", ")}`);
    fill(this.bars, shown.map(({ right, of }, i) => h(
      "div.board-bar", { title: said[i] },
      h("span.room", {}, h("span.share", { style: { height: `${(100 * right) / of}%` } })),
      h("span", { text: right }),
    )));
  }
}
