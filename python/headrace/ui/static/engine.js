// @ts-check
// What the model answers: in this browser where it has the model, else on the server, by the same questions.
import { ask } from "./asking.js";
import { askWorker, readAnswers } from "./model.js";

const MODEL = "/static/model.wasm", WORKER = "/static/worker.js";
const REGION = "us-east-1"; // whose list prices an answer has where the question names no region
// A question that is refused once the catalog has been read: that takes a quarter of a second, which no slider waits for then.
const FIRST_QUESTION = { ask: "demand", load: null, factor: 1, storages: [], instance: null, as_of: null, region: "", start_balance_percent: null, day_of: null, row_s: null };

/** @typedef {ReturnType<typeof askWorker>} Engine */
/** @typedef {{role: string, storage: string}} Choice */
/** @typedef {{workload: string, choices: Choice[], growth: number, as_of: string | null, region: string | null, start_balance_percent: number | null}} DayQuestion */

/** @typedef {{workload: string, storage: string, settings: Record<string, any>}} RunQuestion */
/** @typedef {RunQuestion & {replica: string, workers: number | null}} ReplicaQuestion */

/** @type {Engine | null} */
let browserEngine = null;
/** What was asked for last, as the model takes it, by address. @type {Record<string, {workload: string, about: Promise<any>}>} */
const described = {};
/** The load and the database that the model of this browser has. @type {Record<string, object>} */
let given = {};

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
    await engine(() => [FIRST_QUESTION]);
    browserEngine = engine; given = {};
  } catch { browserEngine = null; }
}

/** Where the next day is computed. */
export const engineName = () => browserEngine ? "browser" : "server";

/** The day of each storage, as its columns, its summary, and the IOPS that it sustains; throws a Refusal.
 * @param {DayQuestion} question */
export async function askDays({ workload, choices, growth, as_of, region, start_balance_percent }) {
  const about = await describe("/api/load", workload);
  const questions = choices.map(({ storage }) => ({ ask: "demand", factor: growth, storages: [storage], instance: null, as_of, region: region ?? REGION, start_balance_percent, day_of: 0, row_s: about.row_s }));
  const answers = await answer(workload, "load", about.load, questions);
  const runs = answers.map(({ demand: { choices: [choice] }, columns }, index) => ({ ...choices[index], sustained_iops: choice.sustained_iops, summary: choice.summary, columns }));
  return { clock_start: about.clock_start, runs };
}

/** A database's run, second by second, and what limits it: its column `cap` has places in `caps`; null where the server alone can
 * answer, since its settings go beyond the model's. @param {RunQuestion} question */
export async function askRun({ workload, storage, settings }) {
  const about = await describe("/api/database", workload), run = settingsOf(about.run, storage, settings);
  if (!run) return null;
  const [{ run: { caps }, columns }] = await answer(workload, "database", about.database, [{ ask: "run", run }]);
  return { name: about.name, caps, columns };
}

/** A replica behind a database, second by second, and what it comes to; null as of a run.
 * @param {ReplicaQuestion} question */
export async function askReplica({ workload, storage, settings, replica, workers }) {
  const about = await describe("/api/database", workload), run = settingsOf(about.replica_run, storage, settings);
  if (!run) return null;
  const [{ replica: { summary }, columns }] = await answer(workload, "database", about.database, [{ ask: "replica", run, replica: { ...about.replica, storage: replica, workers } }]);
  return { columns, summary };
}

/** A workload as the model takes it. @param {string} path @param {string} workload */
async function describe(path, workload) {
  if (described[path]?.workload !== workload) described[path] = { workload, about: ask(path, { workload }) };
  const own = described[path];
  return own.about.catch(refusal => { if (described[path] === own) delete described[path]; throw refusal; });
}

// Rows of a longer run would take a browser's worker longer than they take the server, s: four hours.
const LONGEST_S = 14_400;

/** The settings of a run: those that are set, else the usual; null where the model has not all of them.
 * @param {Record<string, any>} usual @param {string} storage @param {Record<string, any>} settings */
function settingsOf(usual, storage, settings) {
  if (Object.keys(settings).some(name => !(name in usual)) || (settings.seconds ?? 0) > LONGEST_S) return null;
  return { ...usual, ...settings, storage };
}

/** The answers to questions about a workload; throws the Refusal of the first that is refused. `part`: of the questions, which holds
 * `content`, the workload as the model takes it. @param {string} workload @param {string} part @param {object} content @param {object[]} questions @returns {Promise<any[]>} */
async function answer(workload, part, content, questions) {
  const answers = await answerInBrowser(part, content, questions) ?? readAnswers(await ask("/api/whatif", { workload, questions }));
  const refused = answers.find(answer => answer.refused)?.refused;
  if (refused) throw { ...refused, status: 400 };
  return answers;
}

/** @param {string} part @param {object} content @param {object[]} questions */
async function answerInBrowser(part, content, questions) {
  if (!browserEngine) return null;
  // The model remembers a workload, so that each is sent once, and not with every step of a slider.
  const send = () => questions.map(question => {
    const whole = { ...question, [part]: given[part] === content ? null : content };
    given[part] = content;
    return whole;
  });
  try {
    const answers = await browserEngine(send, part);
    if (answers.some(answer => answer.refused)) delete given[part]; // it may be the workload that was refused
    return answers;
  } catch { browserEngine = null; return null; } // it broke: the server goes on
}
