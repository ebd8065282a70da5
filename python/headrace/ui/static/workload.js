// @ts-check
// The workload of a question: an example, a day described in a few answers, or a file that is dropped in.
import { html } from "./html.js";
import { ask } from "./asking.js";
import { isResult, openResult } from "./fleet.js";
import { Refused } from "./view.js";

const MOST_BYTES = 1 << 20; // what the server takes; JSON adds to it, so that it may still refuse a file a little below

/** @param {any} page */
export function WorkloadControl(page) {
  const { facts, state, plan, run, choose, dropped } = page;
  const choices = facts.examples.filter((/** @type {any} */ example) => state.view === "plan" || example.kind === "database");
  const own = !choices.some((/** @type {any} */ example) => example.workload === state.workload);
  const name = (plan.answer ?? run.answer)?.workload?.name ?? dropped?.name ?? "your own";
  return html`<fieldset class="workload"><legend>Workload</legend>
    <label class="field text"><span class="name">Load</span><select value=${own ? "" : state.workload} onChange=${(/** @type {any} */ event) => { const chosen = choices.find((/** @type {any} */ example) => example.workload === event.target.value); if (chosen) choose(chosen); }}>
      ${own && html`<option value="">${name}</option>`}${choices.map((/** @type {any} */ example) => html`<option value=${example.workload}>${example.title}</option>`)}</select></label>
    <label class="drop"><input type="file" onChange=${(/** @type {any} */ event) => { take(event.target.files[0], page); event.target.value = ""; }} />
      <span>Drop a file here, or choose one: iostat, sar, vmstat, CloudWatch JSON, a workload in TOML${state.view === "plan" ? ", a plan in JSON" : ""}</span></label>
    ${dropped?.refusal && html`<${Refused} refusal=${dropped.refusal} />`}
    ${state.view === "plan" && html`<details><summary>Describe a day</summary><${Answers} facts=${facts} choose=${choose} /></details>`}</fieldset>`;
}

/** Sends a dropped file to be read: a result to where it is shown, and a workload or recording to this view. @param {File | undefined} file @param {any} page */
export async function take(file, page) {
  if (!file) return;
  if (await isResult(file)) return openResult(file, page);
  const { drop, tell } = page;
  const refusal = tooLarge(file, `Make a workload of it, which is small: headrace workload import '${file.name}' --to NAME.toml. Then drop that.`);
  if (refusal) return tell(refusal);
  try { drop(await ask("/api/upload", { name: file.name, text: await file.text() })); } catch (refusal) { tell(refusal); }
}

/** Why a file is not sent, if it is not. @param {File} file @param {string} hint */
export function tooLarge(file, hint) {
  return file.size <= MOST_BYTES ? null : { value: file.name, rule: `has ${(file.size / MOST_BYTES).toFixed(1)} MiB; the page takes 1 MiB`, source: "docs/guide/page.md", hint };
}

/** A few questions about the busy hour. @param {{facts: any, choose: (example: any) => void}} props */
function Answers({ facts, choose }) {
  const send = (/** @type {any} */ event) => {
    event.preventDefault();
    const given = [...new FormData(event.target)].map(([name, value]) => [name, String(value).trim().replaceAll(",", " ")]).filter(([, value]) => value);
    choose({ workload: `new:${given.map(([name, value]) => `${name}=${value}`).join(",")}`, kind: "demand", settings: {}, storage: "" });
  };
  return html`<form onSubmit=${send}>${facts.questions.map((/** @type {any} */ question) => html`<label class="field" title=${question.prompt}><span class="name">${question.name.replaceAll("_", " ")}</span>
    <span class="box"><input name=${question.name} required=${question.required} placeholder=${question.default ?? "none"} /> ${question.unit.replace("I/Os a second", "")}</span></label>`)}
    <button type="submit">Plan this day</button></form>`;
}
