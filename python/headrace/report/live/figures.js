// @ts-check
// Figures as a reader writes them, and elements that hold them. Texts are set as text, never as markup.

/** An element with attributes and children. @param {string} name @param {Record<string, string | number>} [attributes] @param {(Node | string)[]} [children] */
export function element(name, attributes = {}, children = []) {
  const drawn = name.startsWith("svg:");
  const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

/** 3,439 and 1.73. @param {number | null | undefined} value */
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
}

/** So many significant digits, never fewer than its whole part: 526.3, 10,412; as `number` of report/words.py.
 * @param {number} value @param {number} [digits] */
export function number(value, digits = 3) {
  const places = value ? Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))) : 0;
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(places, 20) });
}

/** A whole number; of two that are as near, the even one, as Python rounds. @param {number} value */
const rounded = value => value - Math.floor(value) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value);

/** 120 ms, 4.2 s, 20 min, 6 h 30 min; as `span` of report/words.py. @param {number | null} seconds */
export function span(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "-";
  if (seconds > 0 && seconds < 0.995) return `${number(1e3 * seconds, 2)} ms`;
  if (seconds < 60) return `${number(seconds, 2)} s`;
  const whole = rounded(seconds), minutes = rounded(whole / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (whole < 120) return `${whole} s`;
  if (minutes < 120) return `${minutes} min`;
  if (hours < 48) return `${hours} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  return `${days} days${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

/** 0.5 %, 37 %, 99.98 %; as `percent` of report/words.py. @param {number} share */
export function percent(share) {
  const value = 100 * share;
  if (value >= 99.5 && value < 100) return `${(Math.floor(100 * value) / 100).toFixed(2)} %`;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value > 0 && value < 1 ? Number(value.toPrecision(2)) : rounded(value)} %`;
}

/** 19.90. @param {number | null} value */
export const usd = value => value === null || !Number.isFinite(value) ? "-" : value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

// A wait of more than a minute is a queue that grows: such choices stand together at the top of a chart.
export const NEVER_MS = 60_000;

/** 1.73 ms, 1.2 s, 43 min. @param {number | null | undefined} ms */
export function latency(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "-";
  if (ms < 1000) return `${+ms.toPrecision(3)} ms`;
  return ms < NEVER_MS ? `${+(ms / 1000).toPrecision(3)} s` : `${figure(ms / 60_000)} min`;
}

// One volume, or alike members of an array: level, count, type, GiB, IOPS, MiB/s.
const ALIKE = /^(raid\w+:)?(\d+x)?([a-z][a-z0-9-]*):(\d+)(?::(\d+))?(?::(\d+))?$/;

/** The parts of a storage of alike members; null for another. @param {string} storage */
export function partsOf(storage) {
  const match = ALIKE.exec(storage);
  if (!match) return null;
  const [, level = "", count = "", type, gib, iops, mib] = match;
  return { level, count, type, gib: Number(gib), iops: iops ? Number(iops) : null, mib: mib ? Number(mib) : null };
}

/** The notation of parts. @param {NonNullable<ReturnType<typeof partsOf>>} parts */
export function storageOf({ level, count, type, gib, iops, mib }) {
  return `${level}${count}${type}:${gib}${iops === null ? "" : `:${iops}`}${mib === null ? "" : `:${mib}`}`;
}

/** A storage with room for `ratio` times the data. @param {string} storage @param {number} ratio */
export function resized(storage, ratio) {
  const parts = partsOf(storage);
  return parts && ratio !== 1 ? storageOf({ ...parts, gib: Math.max(1, Math.ceil(parts.gib * ratio - 1e-9)) }) : storage;
}
