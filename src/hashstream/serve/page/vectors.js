// A query vector from a file or a pasted text: .npy (version 1 to 3, little-endian numbers), JSON, or CSV.

const READERS = {
  "<f4": [4, (v, i) => v.getFloat32(i, true)], "<f8": [8, (v, i) => v.getFloat64(i, true)],
  "|u1": [1, (v, i) => v.getUint8(i)], "|i1": [1, (v, i) => v.getInt8(i)],
  "<u2": [2, (v, i) => v.getUint16(i, true)], "<i2": [2, (v, i) => v.getInt16(i, true)],
  "<u4": [4, (v, i) => v.getUint32(i, true)], "<i4": [4, (v, i) => v.getInt32(i, true)],
  "<i8": [8, (v, i) => Number(v.getBigInt64(i, true))], "<u8": [8, (v, i) => Number(v.getBigUint64(i, true))],
};

/** The first row of an .npy file. */
export function readNpy(buffer) {
  const view = new DataView(buffer);
  const magic = String.fromCharCode(...new Uint8Array(buffer, 0, Math.min(6, buffer.byteLength)));
  if (magic !== "\x93NUMPY") throw new Error("This is not an .npy file: its first bytes are other ones.");
  const wide = view.getUint8(6) >= 2;
  const start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder("latin1").decode(new Uint8Array(buffer, start, length));
  const kind = /'descr':\s*'([^']+)'/.exec(header)?.[1];
  const shape = (
    /'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? ""
  ).split(",").filter((s) => s.trim()).map(Number);
  if (!(kind in READERS)) throw new Error(
    `Numbers of type ${kind} are not read here: save the vector as float32.`
  );
  if (shape.length < 1 || shape.length > 2) {
    throw new Error("The array needs one dimension (a vector) or two (rows of vectors).");
  }
  if (/'fortran_order':\s*True/.test(header) && shape.length === 2 && shape[0] > 1) {
    throw new Error("The array is in Fortran order: save np.ascontiguousarray(x).");
  }
  const [size, read] = READERS[kind];
  const n = shape.at(-1);
  if (buffer.byteLength < start + length + n * size) throw new Error("The .npy file ends too early.");
  return Array.from({ length: n }, (_, i) => read(view, start + length + i * size));
}

/** The vector of a text: a JSON list (or a list of lists, {"vector": [...]}), or numbers with separators; one row. */
export function readText(text) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("There is no text: paste a list of numbers such as [0.1, 0.2].");
  let values;
  if (/^[[{]/.test(trimmed)) {
    try {
      values = JSON.parse(trimmed);
    } catch (error) { throw new Error(`The text is not valid JSON: ${error.message}.`); }
    values = values.vector ?? values.vectors ?? values;
    if (Array.isArray(values?.[0])) values = values[0];
  } else {
    const lines = trimmed.split(/\r?\n/).filter((line) => line.trim());
    const column = lines.length > 1 && lines.every((line) => !/[,;\t ]/.test(line.trim()));
    const rows = lines.map((line) => line.split(/[,;\t ]+/).filter(Boolean).map(Number));
    values = column ? rows.flat() : rows.find(
      (row) => row.every(Number.isFinite)
    ); // a first line of names is passed over
  }
  if (
    !Array.isArray(values) || !values.length || !values.every(
      (v) => typeof v === "number" && Number.isFinite(v)
    )
  ) {
    throw new Error("A vector is a list of finite numbers, for example [0.1, 0.2, 0.3] or 0.1,0.2,0.3.");
  }
  return values;
}

const STORE = "hashstream.vector.";

/** Keeps a vector for reloads of this tab, under a short name that goes into the address. picture: a blob's address. */
export function keep(vector, title, picture = null) {
  let hash = 5381;
  for (const ch of JSON.stringify(vector)) hash = (hash * 33 + ch.charCodeAt(0)) >>> 0;
  const name = `v${hash.toString(36)}`;
  try {
    sessionStorage.setItem(STORE + name, JSON.stringify({ vector, title }));
  } catch { /* full: a reload forgets it */ }
  kept.set(name, { vector, title, picture });
  return name;
}

const kept = new Map();

/** The vector of a name: {vector, title}, or null where this browser does not know it. */
export function recall(name) {
  return kept.get(name) ?? JSON.parse(sessionStorage.getItem(STORE + name) ?? "null");
}
