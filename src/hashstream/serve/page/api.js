// The HTTP service. Every failure becomes a Problem with a sentence for the reader.

const BASE = new URL("v1/", document.baseURI);
const TOKEN = "hashstream.token";
let askForToken = null;

export class Problem extends Error {
  constructor(status, detail, name = "", retryAfter = null) {
    super(detail);
    Object.assign(this, { status, name, retryAfter });
  }
}

/** Registers the function that asks for a token; it resolves to the token, or null where the reader gives none. */
export const onToken = (ask) => { askForToken = ask; };
export const token = () => sessionStorage.getItem(TOKEN);
export const setToken = (value) => (
  value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)
);

const withToken = (headers = {}) => (token() ? { ...headers, Authorization: `Bearer ${token()}` } : headers);

/** The table's address, for example path("mnist", "search"). */
export const path = (table, ...rest) => ["tables", table, ...rest].map(encodeURIComponent).join("/");

async function problemOf(response) {
  let body = {};
  try { body = await response.json(); } catch { /* not JSON: the status says enough */ }
  const name = String(body.type ?? "").split(":").pop();
  const where = (body.errors ?? []).map((e) => `${e.where}: ${e.what}`).join("; ");
  const detail = body.detail ?? `The service answered ${response.status} ${response.statusText}.`;
  return new Problem(
    response.status, where && !detail.includes(where) ? `${detail} (${where})` : detail, name,
    response.headers.get("Retry-After"),
  );
}

let asking = null;

/** A response that is fine, after asking for a token where one is needed. */
async function request(address, options = {}) {
  const used = token();
  let response;
  try {
    response = await fetch(new URL(address, BASE), { ...options, headers: withToken(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(
      0, "The service cannot be reached. Is it still running? This page tries again when you act.",
    );
  }
  if (response.status === 401 && askForToken) {
    if (token() === used) {
      const detail = (await problemOf(response)).message;
      asking ??= askForToken(detail).finally(() => { asking = null; });
      if (!(await asking)) throw new Problem(401, detail, "token");
    }
    return request(address, options);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get(address, { query = {}, signal } = {}) {
  const url = new URL(address, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) {
      url.searchParams.set(name, typeof value === "object" ? JSON.stringify(value) : value);
    }
  }
  return (await request(url, { signal })).json();
}

/** One write or question as JSON. key: an Idempotency-Key, the same for a repeated try. */
export async function post(address, body, { key = null, signal } = {}) {
  const headers = { "Content-Type": "application/json", ...(key && { "Idempotency-Key": key }) };
  const response = await request(address, { method: "POST", headers, body: JSON.stringify(body), signal });
  return response.status === 204 ? null : response.json();
}

/** A write that must arrive: repeated with one Idempotency-Key where the service was busy or out of reach. */
export async function write(address, body) {
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await post(address, body, { key });
    } catch (problem) {
      const again = [0, 429, 503].includes(problem.status) && attempt < 3;
      if (!again) throw problem;
      await new Promise(
        (done) => setTimeout(done, 1000 * Math.min(Number(problem.retryAfter) || 2 ** attempt, 5))
      );
    }
  }
}

export async function postFile(address, file) {
  return (
    await request(address, { method: "POST", headers: { "Content-Type": file.type }, body: file })
  ).json();
}

// Address -> promise of a blob's address; only with a token, which <img> cannot send.
const pictures = new Map();
const MOST_PICTURES = 600;

/** The address of an item's thumbnail for <img>. */
export function imageAddress(table, id) {
  const url = new URL(path(table, "images", String(id)), BASE).href;
  if (!token()) return Promise.resolve(url);
  if (!pictures.has(url)) {
    pictures.set(url, request(url).then((r) => r.blob()).then((blob) => URL.createObjectURL(blob)));
    if (pictures.size > MOST_PICTURES) {
      const [oldest, address] = pictures.entries().next().value;
      pictures.delete(oldest);
      address.then(URL.revokeObjectURL, () => {});
    }
  }
  return pictures.get(url);
}

/** Follows /v1/events by fetch, which can send a token; calls back with (kind, data) and reconnects by itself. */
export function follow(table, onEvent, onState) {
  const stop = new AbortController();
  (async () => {
    for (let wait = 1; !stop.signal.aborted; wait = Math.min(2 * wait, 30)) {
      try {
        const response = await request(
          `events?table=${encodeURIComponent(table)}`,
          { signal: stop.signal, headers: { Accept: "text/event-stream" } },
        );
        onState(true);
        wait = 1;
        for await (const [kind, data] of readEvents(response.body)) onEvent(kind, data);
      } catch (error) {
        if (stop.signal.aborted) return;
        if ([401, 403, 404].includes(error.status)) return onState(false);
      }
      onState(false);
      await new Promise((done) => setTimeout(done, 1000 * wait));
    }
  })();
  return () => stop.abort();
}

async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const kind = lines.find((l) => l.startsWith("event:"))?.slice(6).trim() ?? "message";
      const data = lines.filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trim()).join("\n");
      if (data) yield [kind, JSON.parse(data)];
    }
  }
}
