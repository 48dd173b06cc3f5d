// The state of the page in the address: #/TABLE/VIEW?name=value. Values are JSON, so that 7 and "7" stay apart.

export const VIEWS = ["search", "teach", "health", "map"];

const listeners = new Set();
let current = parse(location.hash);

function parse(hash) {
  const [where = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [table = "", view = ""] = where.split("/").map(decode);
  const state = {};
  for (const [name, text] of new URLSearchParams(query)) {
    try { state[name] = JSON.parse(text); } catch { state[name] = text; }
  }
  return { table, view: VIEWS.includes(view) ? view : "search", state };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

export function link(table, view, state = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) {
      query.set(name, JSON.stringify(value));
    }
  }
  const text = query.toString();
  return `#/${encodeURIComponent(table)}/${view}${text ? `?${text}` : ""}`;
}

export const route = () => current;

/** Goes to another state, which the Back button leaves again. */
export function go(table, view, state = {}) {
  const next = link(table, view, state);
  if (next === location.hash) tell();
  else location.hash = next;
}

/** Changes values of the current view's state. remember: with an entry for the Back button, and tells listeners. */
export function change(values, { remember = true } = {}) {
  const state = { ...current.state, ...values };
  // Moving on closes the details of an item.
  if (remember) return go(current.table, current.view, { ...state, item: values.item ?? null });
  history.replaceState(null, "", link(current.table, current.view, state));
  current = parse(location.hash);
  return undefined;
}

export const onRoute = (listener) => listeners.add(listener);

function tell() {
  for (const listener of listeners) listener(current);
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return; // the skip link
  current = parse(location.hash);
  tell();
});
