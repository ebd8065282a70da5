// @ts-check
// The model in this browser: questions in JSON to `crates/whatif`, answered in a worker, so that
// the page stays free. Of the questions that wait, only the newest is answered.

/** Asks the model in WebAssembly a question in JSON. Returns a copy of its answer's bytes, for `readAnswers`. @param {any} exports @param {string} question @returns {ArrayBuffer} */
export function exchange(exports, question) {
  // Memory may grow in any call and detach its views: the pointer first, then the buffer.
  const bytes = new TextEncoder().encode(question), to = exports.question_at(bytes.length);
  new Uint8Array(exports.memory.buffer, to, bytes.length).set(bytes);
  const length = exports.answer(), from = exports.answer_at();
  return exports.memory.buffer.slice(from, from + length);
}

/** The answers in a buffer, one after another: each is read from its head, and its columns are numbers where they lie
 * (crates/whatif/src/columns.rs); NaN where a number is missing. @param {ArrayBuffer} buffer @returns {any[]} */
export function readAnswers(buffer) {
  const answers = [];
  for (let at = 0; at < buffer.byteLength;) {
    const [headBytes, count] = new Uint32Array(buffer, at, 2), from = at + 8 + headBytes;
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, at + 8, headBytes))), rows = count / (head.columns.length || 1);
    answers.push({ ...head, columns: Object.fromEntries(head.columns.map((/** @type {string} */ name, /** @type {number} */ nth) => [name, new Float64Array(buffer, from + 8 * rows * nth, rows)])) });
    at = from + 8 * count;
  }
  return answers;
}

/** What runs in the worker; a report sends it there as text. The first message is the model, and
 * the others, questions, wait for it. */
export function work() {
  /** @type {Promise<any>} */
  let model = Promise.resolve(null);
  self.onmessage = async event => {
    const { wasm, questions } = event.data;
    if (wasm) { model = WebAssembly.instantiate(wasm, {}).then(result => result.instance.exports); model.catch(() => {}); return; }
    try {
      const exports = await model;
      const answers = questions.map((/** @type {string} */ question) => exchange(exports, question));
      self.postMessage({ answers }, answers); // moved, not copied
    } catch (error) { self.postMessage({ failed: String(error) }); }
  };
}

// The digits of base 85, as Python has them, but for "<".
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;:=>?@^_`{|}~", GROUP = 5;

/** Unpacks what the page carries. @param {string} packed base 85 of gzip (`letters_of` of report/live) */
export function unpack(packed) {
  const places = new Uint8Array(128), bytes = new DataView(new ArrayBuffer(4 * Math.ceil(packed.length / GROUP)));
  for (let digit = 0; digit < DIGITS.length; digit++) places[DIGITS.charCodeAt(digit)] = digit;
  for (let group = 0; GROUP * group < packed.length; group++) {
    let word = 0;
    // The last group may lack digits: the greatest stand for them.
    for (let at = GROUP * group; at < GROUP * (group + 1); at++) word = 85 * word + (at < packed.length ? places[packed.charCodeAt(at)] : 84);
    bytes.setUint32(4 * group, word);
  }
  const own = new Uint8Array(bytes.buffer, 0, Math.floor(packed.length * 4 / GROUP));
  return new Response(new Blob([own]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** Starts the model that a report carries. @param {string} packed */
export async function startModel(packed) {
  const wasm = await unpack(packed).arrayBuffer();
  const address = URL.createObjectURL(new Blob([`${exchange};(${work})()`], { type: "text/javascript" }));
  return askWorker(new Worker(address), wasm);
}

/** Gives a worker its model. Returns the function that asks it several questions and gives their answers. The questions are
 * made when they are sent; those of a subject that are overtaken by newer ones before that are never answered.
 * @param {Worker} worker @param {ArrayBuffer} wasm @returns {(questions: () => object[], subject?: string) => Promise<any[]>} */
export function askWorker(worker, wasm) {
  worker.postMessage({ wasm }, [wasm]);
  /** @typedef {{questions: () => object[], tell: (answers: any[]) => void, fail: (error: Error) => void}} Question */
  let running = /** @type {Question | null} */ (null);
  /** @type {Map<string, Question>} */
  const waiting = new Map();
  const send = () => {
    const [next] = waiting;
    if (running || !next) return;
    waiting.delete(next[0]);
    running = next[1];
    worker.postMessage({ questions: running.questions().map(question => JSON.stringify(question)) });
  };
  worker.onerror = event => running?.fail(new Error(event.message));
  worker.onmessage = event => {
    const { answers, failed } = event.data, done = running;
    running = null;
    send();
    if (failed) done?.fail(new Error(failed));
    else done?.tell(answers.flatMap(readAnswers));
  };
  return (questions, subject = "") => new Promise((tell, fail) => { waiting.set(subject, { questions, tell, fail }); send(); });
}
