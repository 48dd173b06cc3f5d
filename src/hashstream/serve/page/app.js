// The page: picks a table and a view by the address, and holds what all views share.

import * as api from "./api.js";
import { Classes } from "./classes.js";
import { Detail } from "./detail.js";
import { count, fill, h, notice } from "./dom.js";
import { HealthView } from "./health.js";
import { setCommonKeys, setViewKeys, toggleKeys } from "./keys.js";
import { MapView } from "./map.js";
import { TeachModes, teachMode } from "./modes.js";
import { go, link, onRoute, route, VIEWS } from "./route.js";
import { SearchView } from "./search.js";
import { startTheme } from "./theme.js";

const KINDS = { search: SearchView, teach: TeachModes, health: HealthView, map: MapView };
const TITLES = { search: "Search", teach: "Teach", health: "Health", map: "Map" };
const LEADS = {
  search: "Pick an item, or drop a file: you see what is nearest. Is an answer wrong? Teach it.",
  board: "Where a guess is wrong, click the right class; then teach the whole board. The search learns from it.",
  answers: "Say what the item is, click the answers that are wrong, press Enter: the search learns.",
  health: "How the table is doing now, how it got there, and what a refresh would bring.",
  map: "Near each other means alike for the search. Teach, and watch the classes move apart.",
};

const main = document.getElementById("main");
const picker = document.getElementById("picker");
let tables = [];
let shown = { view: null, name: "", table: "", state: "" };
let stopEvents = () => {};

/** What views share: the table in front, its classes, and ways to ask the service about it. */
const context = {
  info: null,
  classes: null,
  events: [], // the latest first
  live: false,
  path: (rest = "") => api.path(context.info.name, ...rest.split("/").filter(Boolean)),
  get: (rest, options) => api.get(context.path(rest), options),
  post: (rest, body, options) => api.post(context.path(rest), body, options),
  write: (rest, body) => api.write(context.path(rest), body),
  /** The items of these ids, those that exist. */
  async items(ids) {
    return ids.length ? context.post("items/get", { ids, features: false }) : { ids: [], labels: [] };
  },
  /** Reads counts of classes and the teaching curve. */
  async teaching() {
    const teaching = await context.get("teaching");
    context.classes.take(teaching.classes);
    return teaching;
  },
};

const detail = new Detail(context);

async function loadTables() {
  tables = (await api.get("tables")).tables;
  fill(picker, tables.map((t) => h("option", { value: t.name, text: `${t.name} · ${count(t.n_items)}` })));
  return tables;
}

function showTabs(table, view) {
  fill(document.getElementById("tabs"), VIEWS.map((name) => h("a", {
    href: link(table, name), text: TITLES[name], title: `${TITLES[name]} (${name[0].toUpperCase()})`,
    "aria-current": name === view ? "page" : null,
  })));
}

function fail(problem) {
  const again = h("button", { type: "button", text: "Try again", on: { click: start } });
  const token = problem.status === 401 && h(
    "button", { type: "button", text: "Give a token", on: { click: start } },
  );
  fill(
    main,
    notice(
      problem.status === 401 ? "This service needs a token" : "That did not work", problem.message,
      token || again,
    ),
  );
}

async function show({ table, view, state }) {
  const info = tables.find((t) => t.name === table);
  if (!info) return chooseTable(table);
  document.title = `${TITLES[view]} · ${table} · hashstream`;
  document.getElementById("lead").textContent = LEADS[view === "teach" ? teachMode(state) : view];
  picker.value = table;
  const { item, ...own } = state;
  const key = JSON.stringify(own);
  if (shown.table !== table) await openTable(info);
  const same = shown.table === table && shown.name === view && shown.view;
  if (!same) {
    shown.view?.leave?.();
    showTabs(table, view);
    if (info.state !== "open") {
      shown = { view: null, name: view, table, state: key };
      return fill(
        main,
        notice(
          `The table ${table} is ${info.state === "failed" ? "not usable" : "still opening"}`,
          info.error ?? "Try again in a moment.",
          h("button", { type: "button", text: "Try again", on: { click: start } }),
        ),
      );
    }
    const made = new KINDS[view](context);
    shown = { view: made, name: view, table, state: key };
    setViewKeys(made.keys ?? []);
    fill(main, made.element);
    main.className = view;
    await made.update(own);
  } else if (shown.state !== key) {
    shown.state = key;
    await shown.view.update(own);
  }
  return detail.show(item);
}

function chooseTable(wanted) {
  if (!tables.length) {
    document.getElementById("lead").textContent = "Store items first; then search them here, and teach.";
    showTabs("", "");
    return fill(
      main,
      notice(
        "There is no table yet",
        'Create one with hs.Client(address).create("photos", n_bits=64) or POST /v1/tables, then come back.',
        h("button", { type: "button", text: "Look again", on: { click: start } }),
      ),
    );
  }
  if (wanted) {
    showTabs(tables[0].name, "");
    return fill(
      main,
      notice(
        `There is no table ${wanted}`,
        "The link names a table that this service does not have. Choose one of these:",
        ...tables.map((t) => h("a.pill", { href: link(t.name, "search"), text: t.name }))
      ),
    );
  }
  const first = tables.find((t) => t.n_items) ?? tables[0];
  return location.replace(link(first.name, route().view));
}

async function openTable(info) {
  stopEvents();
  shown.view?.leave?.();
  shown = { view: null, name: "", table: info.name, state: "" };
  Object.assign(context, { info, classes: new Classes(info.name), events: [], live: false });
  if (info.state !== "open") return;
  if (info.n_items) await context.teaching().catch(() => {});
  stopEvents = api.follow(info.name, onEvent, (live) => { context.live = live; shown.view?.onLive?.(live); });
}

let infoAsked = 0;

function onEvent(kind, data) {
  if (data.table && data.table !== context.info.name && kind !== "table") return;
  context.events.unshift({ kind, ...data, time: data.time ?? Date.now() / 1000 });
  context.events.length = Math.min(context.events.length, 50);
  if (data.n_items !== undefined) context.info.n_items = data.n_items;
  if (kind === "table") loadTables().then(() => { picker.value = context.info.name; });
  else if (Date.now() - infoAsked > 2000) { // ids, fields and versions may be new
    infoAsked = Date.now();
    context.get("").then((info) => Object.assign(context.info, info)).catch(() => {});
  }
  shown.view?.onEvent?.(kind, data);
}

async function start() {
  shown.table = "";
  try {
    await loadTables();
    await show(route());
  } catch (problem) {
    if (!(problem instanceof api.Problem)) throw problem;
    fail(problem);
  }
}

/** Asks for a token in a dialog; resolves to it, or to null. */
function askForToken(detailText) {
  return new Promise((done) => {
    const input = h(
      "input",
      { type: "password", name: "token", autocomplete: "off", required: true, "aria-label": "Token" },
    );
    const dialog = h(
      "dialog.sheet", {
        id: "token",
        on: {
          close: () => {
            const value = dialog.returnValue === "ok" ? input.value.trim() : "";
            api.setToken(value);
            dialog.remove();
            done(value || null);
          },
        },
      },
      h("form", { method: "dialog" }, h(
        "h2", { text: "This service needs a token" },
      ), h("p", { text: detailText }), h("p", {}, input),
        h("p.faint", { text: "It is kept in this tab until you close it." }),
        h(
          "div.row", {}, h("button.primary", { value: "ok", text: "Use this token" }),
          h("button", { value: "no", text: "Cancel", formnovalidate: true }),
        )),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

api.onToken(askForToken);
startTheme(document.getElementById("theme"));
setCommonKeys(
  (key) => (
    key === "?" ? toggleKeys() : context.info && go(context.info.name, VIEWS.find((v) => v[0] === key))
  )
);
document.getElementById("help").addEventListener("click", toggleKeys);
document.getElementById("skip").addEventListener(
  "click", (event) => { event.preventDefault(); main.focus(); },
);
document.getElementById("brand").addEventListener(
  "click", (event) => { event.preventDefault(); if (context.info) go(context.info.name, "search"); },
);
picker.addEventListener("change", () => go(picker.value, route().view));
onRoute(
  (to) => show(to).catch(
    (problem) => { if (!(problem instanceof api.Problem)) throw problem; fail(problem); }
  )
);
start();
