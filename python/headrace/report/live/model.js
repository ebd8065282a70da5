// @ts-check
// The model in this browser: questions in JSON to `crates/whatif`, answered in a worker, so that
// the page stays free. Of the questions that wait, only the newest is answered.

/** Asks the model in WebAssembly a question, in JSON as its answer. @param {any} exports @param {string} question */
export function exchange(exports, question) {
  // Memory may grow in any call and detach its views: the pointer first, then the buffer.
  const bytes = new TextEncoder().encode(question), to = exports.question_at(bytes.length);
  new Uint8Array(exports.memory.buffer, to, bytes.length).set(bytes);
  const length = exports.answer(), from = exports.answer_at();
  return new TextDecoder().decode(new Uint8Array(exports.memory.buffer, from, length));
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
      self.postMessage({ answers: questions.map((/** @type {string} */ question) => exchange(exports, question)) });
    } catch (error) { self.postMessage({ failed: String(error) }); }
  };
}

/** Unpacks what the page carries. @param {string} packed base64 of gzip */
export function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** Starts the model that a report carries. @param {string} packed */
export async function startModel(packed) {
  const wasm = await unpack(packed).arrayBuffer();
  const address = URL.createObjectURL(new Blob([`${exchange};(${work})()`], { type: "text/javascript" }));
  return askWorker(new Worker(address), wasm);
}

/** Gives a worker its model. Returns the function that asks it several questions and gives their
 * answers; an older question that is overtaken by a newer one is never answered.
 * @param {Worker} worker @param {ArrayBuffer} wasm @returns {(questions: object[]) => Promise<any[]>} */
export function askWorker(worker, wasm) {
  worker.postMessage({ wasm }, [wasm]);
  let busy = false;
  /** @typedef {{questions: string[], tell: (answers: any[]) => void, fail: (error: Error) => void}} Question */
  let running = /** @type {Question | null} */ (null), next = /** @type {Question | null} */ (null);
  const send = () => {
    busy = true; running = next; next = null;
    worker.postMessage({ questions: running?.questions });
  };
  worker.onerror = event => running?.fail(new Error(event.message));
  worker.onmessage = event => {
    const { answers, failed } = event.data, done = running;
    busy = false; running = null;
    if (next) send();
    if (failed) done?.fail(new Error(failed));
    else done?.tell(answers.map((/** @type {string} */ text) => JSON.parse(text)));
  };
  return questions => new Promise((tell, fail) => {
    next = { questions: questions.map(question => JSON.stringify(question)), tell, fail };
    if (!busy) send();
  });
}
