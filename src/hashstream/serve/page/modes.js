// The Teach tab: a board of suggestions, or the answers of one query (mode=answers in the address).

import { BoardView } from "./board.js";
import { fill, h } from "./dom.js";
import { setViewKeys } from "./keys.js";
import { link } from "./route.js";
import { TeachView } from "./teach.js";

/** Which way of teaching a state means. A link with a query is one to its answers. */
export const teachMode = ({ mode, q }) => (mode === "answers" || q !== undefined ? "answers" : "board");

const KINDS = { board: BoardView, answers: TeachView };
const WAYS = [
  ["board", "Board", "Correct the guesses about many items: this teaches most"],
  ["answers", "Answers", "Take one item, and judge what is found for it"],
];

export class TeachModes {
  constructor(context) {
    this.context = context;
    this.element = h("div.teaching");
  }

  async update({ mode, ...state }) {
    const wanted = teachMode({ mode, ...state });
    if (wanted !== this.mode) this.start(wanted);
    await this.inner.update(state);
  }

  start(mode) {
    const { name } = this.context.info;
    this.mode = mode;
    this.inner = new KINDS[mode](this.context);
    setViewKeys(this.inner.keys);
    const ways = WAYS.map(([way, text, title]) => h("a", {
      href: link(name, "teach", way === "board" ? {} : { mode: way }), text, title,
      "aria-current": way === mode ? "true" : null,
    }));
    const nav = h("nav.switch", { "aria-label": "Way of teaching" }, ways);
    if (mode === "board") this.inner.head.prepend(nav); // its bar has room, and stays in sight
    fill(this.element, mode !== "board" && nav, this.inner.element);
  }

  onEvent(kind, data) {
    this.inner?.onEvent?.(kind, data);
  }
}
