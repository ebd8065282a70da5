// @ts-check
// Proofs: what was predicted, and what was then measured on the lab, in their colours.
import { html } from "./html.js";
import { Blocks, Cards, Code, Refused, Title } from "./view.js";
import { ResultDrop } from "./fleet.js";
import { Panel } from "./lines.js";
import { Points } from "./points.js";

const PROVE = ["headrace plan shop.toml --goal 'tps>=300' --compare gp2:1200 --output json > plan.json", "sudo $(command -v headrace) prove plan.json --workload shop.toml --minutes 15"];

/** @param {any} page */
export function ProofsView(page) {
  const { state, proofs, proof, wide, go } = page, listed = proofs.answer?.proofs ?? [], chosen = state.texts.proof, { answer, refusal } = proof;
  const open = (/** @type {any} */ event, /** @type {string} */ name) => { event.preventDefault(); if (name !== chosen) go({ ...state, texts: { proof: name } }); };
  const isNamed = Boolean(chosen || state.texts.file);
  return html`<main class="sides" aria-busy=${isNamed && proof.busy}>
    <div class="head"><${Title} words=${answer?.view.title ?? (isNamed && !refusal ? "Opening the proof" : "Was the prediction right?")} /><p class="sub">${answer?.view.subtitle ?? "A plan, predicted, built on the lab, and measured under load."}</p>
      ${refusal && html`<${Refused} refusal=${refusal} />`}${answer && html`<${Cards} cards=${answer.view.cards} />`}</div>
    <details class="side" open=${wide}><summary>Proofs</summary>
      <${ResultDrop} page=${page} words="Drop a proof.json here, or choose it" />
      ${proofs.refusal && html`<${Refused} refusal=${proofs.refusal} />`}
      <nav class="studies" aria-label="Proofs">${listed.map((/** @type {any} */ entry) => html`<a key=${entry.name} href=${`/proofs?proof=${entry.name}`} aria-current=${entry.name === chosen ? "page" : undefined} onClick=${(/** @type {any} */ event) => open(event, entry.name)}>${entry.source}, ${entry.began_at.slice(0, 10)}: ${entry.holds === null ? "not decided" : entry.holds ? "holds" : "does not hold"}</a>`)}</nav>
      ${proofs.answer && listed.length === 0 && html`<p class="near">None in ${proofs.answer.folder}.</p>`}</details>
    <div class="body">${answer ? html`<${Courses} answer=${answer} /><h2>The same on the command line</h2><${Code} lines=${answer.commands} /><${Blocks} blocks=${answer.view.blocks} />` : html`<h2>How to make one</h2><${Code} lines=${PROVE} />`}</div></main>`;
}

/** Predicted and measured, as bars of all and as a course of each. @param {{answer: any}} props */
function Courses({ answer }) {
  const steps = answer.steps.filter((/** @type {any} */ step) => step.predicted !== null && step.measured !== null), names = steps.map((/** @type {any} */ step) => step.name);
  const bars = { title: "Transactions a second", kind: "bar", x_title: "configuration", y_title: "tps, means after the warm-up", series: [
    { label: "predicted", role: "simulated", x: names, y: steps.map((/** @type {any} */ step) => step.predicted) }, { label: "measured", role: "measured", x: names, y: steps.map((/** @type {any} */ step) => step.measured) }] };
  return html`<section>${steps.length > 0 && html`<${Points} chart=${bars} />`}${answer.steps.map((/** @type {any} */ step) => {
    const length = Math.max(step.predicted_series.length, step.measured_series.length);
    if (length < 2) return null;
    const times = Array.from({ length }, (_, second) => second), fill = (/** @type {number[]} */ values) => times.map(second => values[second] ?? null);
    const lines = [{ name: "predicted, simulated", values: fill(step.predicted_series), colour: "--simulated" }, { name: "measured", values: fill(step.measured_series), colour: "--measured" }].filter(line => line.values.some(value => value !== null));
    return html`<${Panel} key=${step.name} title=${step.name} unit="transactions a second; shaded: warm-up, which does not count" times=${times} lines=${lines} marks=${times.map(second => second < answer.warmup_s)} sync="proof" height=${160} described=${`Transactions a second of ${step.name}, predicted and measured`} />`;
  })}</section>`;
}
