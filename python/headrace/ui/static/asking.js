// @ts-check
// Questions to the server, and the order of their answers.

/** An error as the command line says it.
 * @typedef {{value: string, rule: string, source: string, hint: string, status: number}} Refusal */

// The key of this browser: what is stored here, other ports of this machine cannot read.
const KEY = "headrace-key";
export const keepKey = (/** @type {string} */ key) => localStorage.setItem(KEY, key);
export const headers = () => ({ "content-type": "application/json", "x-headrace": localStorage.getItem(KEY) ?? "none" });

/** Sends a question. Returns the value of an answer in JSON, the bytes of another; throws a Refusal.
 * @param {string} path @param {object} question @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function ask(path, question, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST", signal, credentials: "same-origin", body: JSON.stringify(question), headers: headers(),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw { value: "headrace page", rule: "does not answer any more", source: "", hint: "Run headrace page again.", status: 0 };
  }
  if (answer.headers.get("content-type") === "application/octet-stream") return answer.arrayBuffer();
  const body = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw { ...body.error, status: answer.status };
  return body;
}

/** An answer that the page has, or why there is none: of which question, and as the how manieth it came.
 * @typedef {{answer: any, refusal: any, question?: any, at?: number}} Answered */

/** @param {any} first @param {any} second */
const same = (first, second) => JSON.stringify(first) === JSON.stringify(second);

/** What is shown of a run that the model answers at once and the server in full: whether the model is ahead, and whose columns.
 * @param {Answered} quick @param {Answered} whole */
export function newestOf(quick, whole) {
  const alike = same(quick.question, whole.question), answered = !!quick.answer && !quick.refusal;
  const ahead = answered && !alike && (quick.at ?? 0) > (whole.at ?? 0);
  return { ahead, columns: answered && (ahead || alike) ? quick.answer.columns : whole.answer?.columns };
}

/** Why this question is refused, if it is. @param {Answered[]} parts @param {any} question */
export const newestRefusal = (parts, question) => parts.find(part => part.refusal && same(part.question, question))?.refusal ?? null;

/** Asks one question at a time and, while it waits, keeps the newest alone: what a slider needs.
 * @param {(question: any) => Promise<any>} answerOf @param {(answer: any, refusal: Refusal | null, question: any) => void} tell */
export function keepingUp(answerOf, tell) {
  let busy = false, sent = "", turn = 0;
  /** @type {object | null} */
  let next = null;
  // What is shown anew is asked anew, though it was the last question; the answer to one of before is of nothing that is shown.
  send.forget = () => { sent = ""; next = null; turn++; };
  return send;

  async function send(/** @type {object} */ question) {
    const text = JSON.stringify(question);
    if (text === sent && !next) return;
    if (busy) { next = question; return; }
    busy = true; sent = text;
    const own = turn, [answer, refusal] = await answerOf(question).then(given => [given, null], reason => [null, reason]);
    busy = false;
    if (next) { const newest = next; next = null; send(newest); }
    if (own === turn) tell(answer, refusal, question);
  }
}

/** Asks the newest question alone, once it has rested for a moment; an older one is called off.
 * @param {string} path @param {(answer: any, refusal: Refusal | null, question: any) => void} tell @param {number} restMs */
export function newestOnly(path, tell, restMs) {
  let sent = "", timer = 0;
  /** @type {AbortController | null} */
  let running = null;
  send.forget = () => { sent = ""; clearTimeout(timer); running?.abort(); };
  return send;

  function send(/** @type {object} */ question) {
    const text = JSON.stringify(question);
    if (text === sent) return;
    const first = sent === "";
    sent = text;
    clearTimeout(timer);
    running?.abort();
    timer = setTimeout(async () => {
      const own = running = new AbortController();
      try { const answer = await ask(path, question, own.signal); if (!own.signal.aborted) tell(answer, null, question); }
      catch (refusal) { if (!own.signal.aborted) tell(null, /** @type {Refusal} */ (refusal), question); }
    }, first ? 0 : restMs);
  }
}
