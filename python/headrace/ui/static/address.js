// @ts-check
// What a view shows stands in the address: /plan?w=demo:day&growth=1.5&goals=p99_ms<=10

/** @typedef {{name: string, flag: string, kind: string, many: boolean, unit: string | null, least: number | null, most: number | null,
 *   choices: string[] | null, default: any, usual: string | null, scope: string | null, help: string}} Option */
/** `texts`: what else a view has in its address, by name.
 * @typedef {{view: string, workload: string, settings: Record<string, any>, storage: string, texts: Record<string, string>}} State */

export const VIEWS = { plan: "Plan", database: "Database", fleet: "Fleet", lab: "Lab", replicas: "Replicas", doctor: "Doctor", studies: "Studies", proofs: "Proofs" };
// The options whose names the settings of a view have.
export const OPTIONS = { plan: "plan", database: "predict", replicas: "predict" };
/** The other texts of an address. @type {Record<string, string[]>} */
const TEXTS = { plan: ["file"], fleet: ["file", "inventory", "verdict", "find", "sort"], lab: ["drawn"], replicas: ["replica", "workers"], doctor: ["file", "storage"], studies: ["study"], proofs: ["proof", "file"] };

/** @param {URL | Location} address @param {Record<string, Option[]>} options @returns {State} */
export function readAddress(address, options) {
  const view = address.pathname.slice(1) in VIEWS ? address.pathname.slice(1) : "plan";
  const query = new URLSearchParams(address.search);
  /** @type {Record<string, any>} */
  const settings = {};
  for (const option of options[OPTIONS[/** @type {"plan"} */ (view)]] ?? []) {
    const texts = query.getAll(option.name);
    if (texts.length) settings[option.name] = option.many ? texts : readText(option, texts[0]);
  }
  const texts = Object.fromEntries((TEXTS[view] ?? []).filter(name => query.get(name)).map(name => [name, query.get(name) ?? ""]));
  return { view, workload: query.get("w") ?? "", settings, storage: query.get("storage") ?? "", texts };
}

/** @param {State} state */
export function writeAddress(state) {
  const query = new URLSearchParams();
  for (const name of TEXTS[state.view] ?? []) if (state.texts[name]) query.set(name, state.texts[name]);
  if (state.view in OPTIONS) {
    if (state.workload) query.set("w", state.workload);
    if (state.storage) query.set("storage", state.storage);
    for (const [name, value] of Object.entries(state.settings))
      for (const text of Array.isArray(value) ? value : [value]) query.append(name, String(text));
  }
  const text = query.toString();
  return `/${state.view}${text ? `?${text}` : ""}`;
}

/** The value that a text stands for; a text that is none of its kind stays, and the server refuses it by name.
 * @param {Option} option @param {string} text */
export function readText(option, text) {
  if (option.kind === "switch") return text === "true";
  if (option.kind !== "number" && option.kind !== "whole") return text;
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) ? text : value;
}
