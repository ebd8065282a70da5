// @ts-check
// Days that the model answers: in this browser where it has the model, else on the server, by the same questions.
import { ask } from "./asking.js";
import { askWorker } from "./model.js";

const MODEL = "/static/model.wasm", WORKER = "/static/worker.js";
const REGION = "us-east-1"; // whose list prices an answer has where the question names no region

/** @typedef {(questions: object[]) => Promise<any[]>} Engine */
/** @typedef {{workload: string, storages: string[], growth: number, as_of: string | null, region: string | null, start_balance_percent: number | null}} DayQuestion */

/** @type {Engine | null} */
let browserEngine = null;
/** The demand that was asked for last. @type {{workload: string, about: Promise<any>} | null} */
let demand = null;

/** The address of the worker, past the policy that lets no other script through. */
function workerAddress() {
  const types = /** @type {any} */ (globalThis).trustedTypes;
  if (!types) return WORKER;
  return types.createPolicy("headrace-worker", { createScriptURL: (/** @type {string} */ address) => { if (address !== WORKER) throw new TypeError(address); return address; } }).createScriptURL(WORKER);
}

/** Fetches the model and lets it answer from now on; where this browser cannot run it, the server goes on. */
export async function startEngine() {
  if (typeof WebAssembly === "undefined") return;
  try {
    const answer = await fetch(MODEL);
    if (!answer.ok) return;
    const engine = askWorker(new Worker(workerAddress(), { type: "module" }), await answer.arrayBuffer());
    await engine([{}]); // a refusal; by now it is compiled
    browserEngine = engine;
  } catch { browserEngine = null; }
}

/** Where the next day is computed. */
export const engineName = () => browserEngine ? "browser" : "server";

/** The day of each storage, as its columns, its summary, and the IOPS that it sustains; throws a Refusal.
 * @param {DayQuestion} question */
export async function askDays({ workload, storages, growth, as_of, region, start_balance_percent }) {
  if (demand?.workload !== workload) demand = { workload, about: ask("/api/load", { workload }) };
  const about = await demand.about.catch(refusal => { demand = null; throw refusal; });
  const questions = storages.map(storage => ({ ask: "demand", factor: growth, storages: [storage], instance: null, as_of, region: region ?? REGION, start_balance_percent, day_of: 0, row_s: about.row_s }));
  const answers = await answer(workload, about.load, questions);
  const refused = answers.find(part => part.refused)?.refused;
  if (refused) throw { ...refused, status: 400 };
  const runs = answers.map(({ demand: { choices: [choice], day } }, index) => ({ storage: storages[index], sustained_iops: choice.sustained_iops, summary: choice.summary, columns: withoutEmpty(day) }));
  return { clock_start: about.clock_start, runs };
}

/** @param {string} workload @param {object} load @param {object[]} questions @returns {Promise<any[]>} */
async function answer(workload, load, questions) {
  if (browserEngine) {
    try { return await browserEngine(questions.map((question, index) => ({ ...question, load: index ? null : load }))); }
    catch { browserEngine = null; } // it broke: the server goes on
  }
  return (await ask("/api/whatif", { workload, questions })).answers;
}

/** Columns that have a value: a storage without credits has no balance. @param {Record<string, (number | null)[]>} columns */
const withoutEmpty = columns => Object.fromEntries(Object.entries(columns).filter(([, values]) => values.some(value => value !== null)));
