// Keys: one list for all views, and the dialog that shows them. Keys rest while a text is typed.

import { h } from "./dom.js";

const common = [
  { keys: ["s", "t", "h", "m"], shown: "S T H M", text: "go to Search, Teach, Health, Map" },
  { keys: ["?"], shown: "?", text: "show or hide these keys" },
];
let viewKeys = [];
let runCommon = () => {};

/** The keys of the view in front: [{keys, shown, text, run(event)}]. */
export const setViewKeys = (keys) => { viewKeys = keys; };
export const setCommonKeys = (run) => { runCommon = run; };

const typing = (element) => element.matches?.(
  "input:not([type=checkbox], [type=radio], [type=file]), textarea, select, [contenteditable]"
);

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || typing(event.target)) return;
  if (document.querySelector("dialog[open]") && event.key !== "?") return;
  const name = (
    event.ctrlKey || event.metaKey ? "Ctrl+" : ""
  ) + (event.key.length === 1 ? event.key.toLowerCase() : event.key);
  if (event.altKey) return;
  const found = viewKeys.find(({ keys }) => keys?.includes(name));
  if (found?.run && found.run(event) !== false) return void event.preventDefault();
  if (common.some(({ keys }) => keys.includes(name))) {
    event.preventDefault();
    runCommon(name);
  }
});

/** Opens the list of keys, or closes it. */
export function toggleKeys() {
  const open = document.getElementById("keys");
  if (open) return open.close();
  const rows = [...viewKeys, ...common].filter(({ shown }) => shown);
  const dialog = h(
    "dialog.sheet", {
      id: "keys", "aria-labelledby": "keys-title",
      on: { close: () => dialog.remove(), click: (e) => e.target === dialog && dialog.close() },
    },
    h("h2", { id: "keys-title", text: "Keys" }),
    h(
      "dl.keys", {},
      rows.flatMap(
        ({ shown, text }) => [
          h("dt", {}, shown.split(" ").map((key) => h("kbd", { text: key }))), h("dd", { text })
        ]
      ),
    ),
    h("form", { method: "dialog" }, h("button", { text: "Close" })),
  );
  document.body.append(dialog);
  return dialog.showModal();
}
