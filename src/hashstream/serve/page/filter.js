// A filter as a small form: conditions on fields, the label and the id, joined by "and"; or raw JSON.

import { button, fill, h } from "./dom.js";
import { labelText } from "./classes.js";

const ORDERED = ["$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$exists"];
const OPERATORS = {
  int: ORDERED, float: ORDERED, datetime: ORDERED, str: ORDERED, label: ["$eq", "$ne", "$in", "$exists"],
  id: [
    "$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in",
  ], bool: ["$eq", "$exists"], list: ["$eq", "$in", "$exists"],
};
const WORDS = {
  $eq: "is", $ne: "is not", $lt: "<", $lte: "≤", $gt: ">", $gte: "≥", $in: "is one of",
  $exists: "has a value",
};

/** The conditions of a filter: [{field, op, value}], or null where only JSON can show it. */
export function conditionsOf(where) {
  if (where === null || where === undefined) return [];
  const parts = "$and" in where && Object.keys(where).length === 1 ? where.$and : [where];
  if (!Array.isArray(parts)) return null;
  const out = [];
  for (const part of parts) {
    for (const [field, test] of Object.entries(part)) {
      if (field.startsWith("$")) return null;
      const tests = test !== null && typeof test === "object" && !Array.isArray(test) ? test : { $eq: test };
      for (const [op, value] of Object.entries(tests)) {
        if (!(op in WORDS)) return null;
        out.push({ field, op, value });
      }
    }
  }
  return out;
}

/** The filter of conditions, or null without any. */
export function whereOf(conditions) {
  const parts = conditions.map(
    ({ field, op, value }) => ({ [field]: op === "$eq" ? value : { [op]: value } })
  );
  return parts.length === 0 ? null : parts.length === 1 ? parts[0] : { $and: parts };
}

export class FilterForm {
  constructor({ info, classes, onApply }) {
    Object.assign(this, { info, classes, onApply });
    this.kinds = { label: "label", id: info.ids === "str" ? "id-text" : "id", ...info.fields };
    this.rows = h("div.conditions");
    this.raw = h(
      "textarea",
      { rows: 3, spellcheck: "false", "aria-label": "Filter as JSON", placeholder: '{"price": {"$lt": 10}}' },
    );
    this.error = h("p.error", { role: "alert" });
    this.toggle = button(
      "JSON", () => this.setMode(!this.isRaw), { kind: "quiet", title: "Write the filter as JSON" },
    );
    this.element = h(
      "form.filter", { "aria-label": "Filter", on: { submit: (e) => (e.preventDefault(), this.apply()) } },
      this.rows, this.raw, this.error,
      h(
        "div.row", {}, this.adder = button("+ Add", () => this.add(true), { kind: "quiet" }), this.toggle,
        h("button.quiet", { type: "submit", text: "Apply" }),
        button("Clear", () => (this.set(null), this.apply()), { kind: "quiet" }),
      ),
    );
  }

  /** Shows a filter. */
  set(where) {
    const conditions = conditionsOf(where);
    this.error.textContent = "";
    this.raw.value = where ? JSON.stringify(where) : "";
    fill(this.rows);
    for (const condition of conditions ?? []) this.add(false, condition);
    this.setMode(conditions === null, false);
  }

  setMode(raw, convert = true) {
    if (convert) {
      try {
        if (raw) this.raw.value = JSON.stringify(this.read() ?? {});
        else {
          const conditions = conditionsOf(this.raw.value.trim() ? JSON.parse(this.raw.value) : null);
          if (!conditions) throw new Error("This filter uses $or or $not: only JSON can show it.");
          fill(this.rows);
          for (const condition of conditions) this.add(false, condition);
        }
        this.error.textContent = "";
      } catch (error) {
        this.error.textContent = error.message;
        if (!raw) return;
      }
    }
    this.isRaw = raw;
    this.raw.hidden = !raw;
    this.rows.hidden = raw;
    this.adder.hidden = raw;
    this.toggle.textContent = raw ? "Form" : "JSON";
  }

  add(focus, { field = Object.keys(this.info.fields)[0] ?? "label", op = "$eq", value } = {}) {
    const row = h("div.condition");
    const fields = h(
      "select", { "aria-label": "Field" },
      Object.keys(this.kinds).map((name) => h("option", { value: name, text: name })),
    );
    const ops = h("select", { "aria-label": "Operator" });
    const slot = h("span.value");
    fields.value = field in this.kinds ? field : "label";
    const showOps = (chosen) => {
      const kind = this.kinds[fields.value];
      fill(
        ops,
        (OPERATORS[kind] ?? OPERATORS.id).map(
          (name) => h(
            "option", { value: name, text: kind === "list" && name === "$eq" ? "contains" : WORDS[name] },
          )
        ),
      );
      ops.value = chosen;
      if (!ops.value) ops.selectedIndex = 0;
    };
    const showValue = (initial) => fill(slot, this.input(fields.value, ops.value, initial));
    fields.addEventListener("change", () => (showOps(ops.value), showValue()));
    ops.addEventListener("change", () => showValue());
    showOps(op);
    showValue(value);
    row.append(
      fields, ops, slot,
      h(
        "button.icon.small",
        {
          type: "button", "aria-label": "Remove this condition", text: "×",
          on: { click: () => (row.remove(), this.apply()) },
        },
      ),
    );
    this.rows.append(row);
    if (focus) fields.focus();
  }

  input(field, op, value) {
    const kind = this.kinds[field];
    const choice = (options, chosen) => {
      const select = h(
        "select", { "aria-label": "Value" },
        options.map(([text, json]) => h("option", { value: JSON.stringify(json), text })),
      );
      if (chosen !== undefined) select.value = JSON.stringify(chosen);
      return select;
    };
    if (op === "$exists" || kind === "bool") return choice(
      op === "$exists" ? [["yes", true], ["no", false]] : [["true", true], ["false", false]], value,
    );
    if (kind === "label" && op !== "$in" && this.classes.all().length) {
      return choice(this.classes.all().map((label) => [labelText(label), label]), value);
    }
    const number = ["int", "float", "id"].includes(kind) && op !== "$in";
    const type = number ? "number" : kind === "datetime" && op !== "$in" ? "datetime-local" : "text";
    const input = h(
      "input",
      {
        type, step: number ? "any" : kind === "datetime" ? "1" : null, "aria-label": "Value",
        placeholder: op === "$in" ? "a, b, c" : "value",
      },
    );
    if (value !== undefined && value !== null) input.value = Array.isArray(value) ? value.join(", ")
      : type === "datetime-local" ? String(value).slice(0, 19) : String(value);
    return input;
  }

  /** The filter that the form shows, or null. */
  read() {
    if (this.isRaw) {
      const text = this.raw.value.trim();
      if (!text) return null;
      const where = JSON.parse(text);
      if (typeof where !== "object" || Array.isArray(where)) {
        throw new Error('A filter is an object, for example {"label": 3}.');
      }
      return where && Object.keys(where).length ? where : null;
    }
    return whereOf([...this.rows.children].map((row) => {
      const [fields, ops] = row.querySelectorAll("select");
      const input = row.querySelector(".value").firstChild;
      if (input.matches("select")) return {
        field: fields.value, op: ops.value, value: JSON.parse(input.value),
      };
      const kind = this.kinds[fields.value];
      const one = (text) => {
        if (!text) throw new Error(`Give a value for ${fields.value}, or remove the condition.`);
        if (kind === "label") return this.classes.parse(text);
        if (!["int", "float", "id"].includes(kind)) return text;
        if (!Number.isFinite(Number(text))) throw new Error(`${fields.value} takes numbers, not "${text}".`);
        return Number(text);
      };
      const text = input.value.trim();
      return {
        field: fields.value, op: ops.value,
        value: ops.value === "$in" ? text.split(",").map((t) => one(t.trim())) : one(text),
      };
    }));
  }

  apply() {
    try {
      const where = this.read();
      this.error.textContent = "";
      this.onApply(where);
    } catch (error) {
      this.error.textContent = error instanceof SyntaxError
        ? `The filter is not valid JSON: ${error.message}.` : error.message;
    }
  }
}
