// Classes: their text, order, colour, shape and key. Colours are those of Okabe and Ito; from the ninth class on, the
// shape changes, so that colour and shape together stay unique for 40 classes.

const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#5f5f5f"];
export const SHAPES = ["circle", "square", "triangle", "diamond", "cross"];

/** A label as text: lists of 0/1 as the columns that are set. */
export function labelText(label) {
  if (label === null || label === undefined) return "no label";
  if (Array.isArray(label)) return label.map(
    (bit, i) => (bit ? i : null)
  ).filter((i) => i !== null).join(", ") || "none of the columns";
  return label === "" ? "(empty)" : String(label);
}

export const sameLabel = (a, b) => JSON.stringify(a) === JSON.stringify(b);

const small = (label) => Number.isInteger(label) && label >= 0;

/** Natural order: numbers by value, then texts. */
export function inOrder(labels) {
  return [...labels].sort((a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  });
}

/**
 * The classes of one table. A class keeps its place, hence its colour, once it was seen: small integers are their own
 * place, others in the order of their first sight, which is stored in the browser.
 */
export class Classes {
  constructor(table) {
    this.store = `hashstream.classes.${table}`;
    try { this.seen = JSON.parse(localStorage.getItem(this.store) ?? "[]"); } catch { this.seen = []; }
    this.counts = new Map();
  }

  /** Takes the classes of the table: [{label, count}]. */
  take(classes) {
    this.counts = new Map(classes.map(({ label, count }) => [JSON.stringify(label), count]));
    for (const { label } of classes) this.place(label);
  }

  place(label) {
    if (small(label)) return label;
    const key = JSON.stringify(label);
    if (!this.seen.includes(key)) {
      this.seen.push(key);
      localStorage.setItem(this.store, JSON.stringify(this.seen));
    }
    return this.seen.indexOf(key);
  }

  colour(label) {
    if (label === null || label === undefined) return "var(--unlabelled)";
    return COLOURS[this.place(label) % COLOURS.length];
  }

  shape(label) {
    if (label === null || label === undefined) return "circle";
    return SHAPES[Math.floor(this.place(label) / COLOURS.length) % SHAPES.length];
  }

  /** Classes in order; more: labels that are not stored yet. */
  all(more = []) {
    const keys = new Set([...this.counts.keys(), ...more.map((label) => JSON.stringify(label))]);
    return inOrder([...keys].map((key) => JSON.parse(key)));
  }

  count(label) {
    return this.counts.get(JSON.stringify(label)) ?? 0;
  }

  /** Whether a digit key means the class of that number: true where every class is one of 0 to 9. */
  digits(more = []) {
    return this.all(more).every((label) => small(label) && label <= 9);
  }

  /** The class of a digit key, or undefined. */
  ofKey(digit, more = []) {
    return this.digits(more) ? Number(digit) : this.all(more)[(Number(digit) + 9) % 10];
  }

  /** The digit key of a class, or null. */
  keyOf(label, more = []) {
    if (this.digits(more)) return String(label);
    const place = this.all(more).findIndex((other) => JSON.stringify(other) === JSON.stringify(label));
    return place >= 0 && place < 10 ? String((place + 1) % 10) : null;
  }

  /** The label that a typed text means: a number where the classes are numbers, or where there are none yet. */
  parse(text, more = []) {
    const trimmed = text.trim();
    if (!trimmed) return undefined;
    const known = this.all(more);
    const number = /^-?\d+(\.\d+)?$/.test(trimmed) && known.every((label) => typeof label === "number");
    return number ? Number(trimmed) : trimmed;
  }
}
