// Points on a canvas, in the colours and shapes of their classes.

const PAD = 48;
const REACH = 18; // pixels within which a pointer means a point

const OUTLINES = {
  circle: (c, x, y, r) => c.arc(x, y, r, 0, 2 * Math.PI),
  square: (c, x, y, r) => c.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r),
  triangle: (c, x, y, r) => {
    c.moveTo(x, y - 1.2 * r);
    c.lineTo(x + 1.1 * r, y + 0.8 * r);
    c.lineTo(x - 1.1 * r, y + 0.8 * r);
    c.closePath();
  },
  diamond: (c, x, y, r) => {
    c.moveTo(x, y - 1.3 * r);
    c.lineTo(x + 1.3 * r, y);
    c.lineTo(x, y + 1.3 * r);
    c.lineTo(x - 1.3 * r, y);
    c.closePath();
  },
  cross: (c, x, y, r) => {
    c.rect(x - 1.2 * r, y - 0.45 * r, 2.4 * r, 0.9 * r);
    c.rect(x - 0.45 * r, y - 1.2 * r, 0.9 * r, 2.4 * r);
  },
};

export class Scatter {
  constructor(canvas, classes) {
    Object.assign(
      this, { canvas, classes, places: [], alphas: [], offsets: [], labels: [], visible: [], lit: -1 },
    );
  }

  /** Offsets in pixels that spread items of equal codes around their common place, as a sunflower does. */
  spreadOut(places) {
    const seen = new Map();
    return places.map(([x, y]) => {
      const key = `${x.toFixed(2)} ${y.toFixed(2)}`;
      const n = seen.get(key) ?? 0;
      seen.set(key, n + 1);
      const far = Math.min(44, 4.2 * Math.sqrt(n));
      return [far * Math.cos(2.4 * n), far * Math.sin(2.4 * n)];
    });
  }

  show(labels, visible) {
    Object.assign(this, { labels, visible });
    this.draw();
  }

  /** Moves the points; offsets: of `spreadOut`. */
  move(places, alphas, offsets) {
    Object.assign(this, { places, alphas, offsets });
    this.draw();
  }

  light(place) {
    this.lit = place;
    this.draw();
  }

  pixel(i) {
    const { clientWidth: w, clientHeight: tall } = this.canvas;
    const [x, y] = this.places[i];
    const [dx, dy] = this.offsets[i];
    return [w / 2 + x * (w / 2 - PAD) + dx, tall / 2 - y * (tall / 2 - PAD) + dy];
  }

  draw() {
    const { canvas } = this;
    const { clientWidth: w, clientHeight: tall } = canvas;
    const scale = devicePixelRatio || 1;
    if (!w || !this.places.length) return;
    if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(tall * scale)) {
      [canvas.width, canvas.height] = [Math.round(w * scale), Math.round(tall * scale)];
    }
    const c = canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, w, tall);
    const css = getComputedStyle(canvas);
    const grey = css.getPropertyValue("--unlabelled").trim();
    const rim = css.getPropertyValue("--panel").trim();
    const r = this.places.length > 600 ? 4 : 5.5;
    const labelled = (i) => this.labels[i] !== null && this.labels[i] !== undefined;
    const order = [...this.places.keys()].sort((a, b) => labelled(a) - labelled(b)); // labels above
    for (const i of order) {
      if (this.visible[i]) this.dot(c, i, r * (labelled(i) ? 1.15 : 0.9), grey, rim);
    }
    if (this.lit >= 0 && this.places[this.lit]) {
      c.lineWidth = 2.5;
      c.strokeStyle = css.getPropertyValue("--text").trim();
      c.beginPath();
      c.arc(...this.pixel(this.lit), r + 5, 0, 2 * Math.PI);
      c.stroke();
    }
  }

  dot(c, i, r, grey, rim) {
    const label = this.labels[i] ?? null;
    c.globalAlpha = (label === null ? 0.65 : 0.95) * (this.alphas[i] ?? 1);
    c.fillStyle = label === null ? grey : this.classes.colour(label);
    c.strokeStyle = rim;
    c.lineWidth = 1;
    c.beginPath();
    OUTLINES[this.classes.shape(label)](c, ...this.pixel(i), r);
    c.fill();
    c.stroke();
    c.globalAlpha = 1;
  }

  /** The visible point nearest to a pixel within reach, or -1. */
  nearest(x, y, reach = REACH) {
    let [best, least] = [-1, reach ** 2];
    this.places.forEach((_, i) => {
      if (!this.visible[i]) return;
      const [px, py] = this.pixel(i);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  /** The nearest visible point in a direction from another one; that one itself where there is none. */
  towards(from, [dx, dy]) {
    const [x, y] = this.pixel(from);
    let [best, least] = [from, Infinity];
    this.places.forEach((_, i) => {
      if (i === from || !this.visible[i]) return;
      const [px, py] = this.pixel(i);
      const along = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (along > 0.5 && aside <= 2 * along && along + 2 * aside < least) {
        [best, least] = [i, along + 2 * aside];
      }
    });
    return best;
  }
}
