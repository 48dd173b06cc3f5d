// Marks by pointer on a grid: a click on one card, shift-click up to another one, or a stroke over several.

import { keyOf } from "./dom.js";

export class Painter {
  /** of(item) -> whether it counts as the same; mark(items, same). */
  constructor(grid, { of, mark }) {
    Object.assign(this, { grid, of, mark, anchor: null, stroke: null, swallow: false });
    grid.element.addEventListener("pointerdown", (e) => this.down(e));
    grid.element.addEventListener("pointerover", (e) => this.over(e));
    addEventListener("pointerup", () => { this.swallow = Boolean(this.stroke?.moved); this.stroke = null; });
    grid.element.addEventListener("click", (e) => this.click(e));
  }

  item(event) {
    const id = event.target.closest(".face") && event.target.closest(".card")?.dataset.id;
    return this.grid.items.find((item) => keyOf(item.id) === id);
  }

  down(event) {
    const item = this.item(event);
    this.swallow = false;
    // A finger that moves scrolls the page; it marks by taps only.
    if (item && event.button === 0 && event.pointerType !== "touch" && !event.shiftKey) {
      this.stroke = { item, same: !this.of(item), moved: false };
    }
  }

  over(event) {
    const item = this.stroke && this.item(event);
    if (!item || (item === this.stroke.item && !this.stroke.moved)) return;
    const list = this.stroke.moved ? [item] : [this.stroke.item, item];
    this.stroke.moved = true;
    this.mark(list, this.stroke.same);
  }

  click(event) {
    const item = this.item(event);
    const painted = this.swallow;
    this.swallow = false;
    if (!item || painted) return;
    const { items } = this.grid;
    const from = event.shiftKey && this.anchor ? items.findIndex(
      (other) => keyOf(other.id) === this.anchor.key
    ) : -1;
    if (from >= 0) {
      const to = items.indexOf(item);
      this.mark(items.slice(Math.min(from, to), Math.max(from, to) + 1), this.anchor.same);
      return;
    }
    const same = !this.of(item);
    this.anchor = { key: keyOf(item.id), same };
    this.mark([item], same);
  }
}
