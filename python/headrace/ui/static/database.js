// @ts-check
// A database on a storage: transactions a second, response times, how dense they are, how the cache warms.
import { html } from "./html.js";
import { Blocks, Cards, Code, Refused } from "./view.js";
import { Control } from "./controls.js";
import { StorageControl } from "./storage.js";
import { Panel } from "./lines.js";
import { figure } from "./figures.js";
import { WorkloadControl } from "./workload.js";

const FIRST = ["threads", "cache_gib", "growth", "instance", "start", "seconds", "log_storage"];

/** @param {any} page */
export function DatabaseView(page) {
  const { facts, state, run, move, rest } = page, answer = run.answer;
  const control = (/** @type {any} */ option) => html`<${Control} key=${option.name} option=${option} value=${state.settings[option.name] ?? null}
    onMove=${(/** @type {any} */ value) => move({ settings: { ...state.settings, [option.name]: value } })} onRest=${rest} />`;
  const options = facts.options.predict;
  return html`<main class="sides" aria-busy=${run.busy}>
    <div class="head">${answer ? html`<h1>${answer.workload.name} does ${figure(answer.result.summary.tps)} transactions a second on ${answer.words}.</h1><p class="sub">${answer.view.subtitle}, simulated</p>` : html`<h1>${run.refusal ? "This cannot be run" : "Running"}</h1>`}
      ${run.refusal && html`<${Refused} refusal=${run.refusal} />`}
      ${answer && html`<${Cards} cards=${answer.view.cards} />`}</div>
    <details class="side" open=${page.wide}><summary>The question</summary>
      <${WorkloadControl} ...${page} />
      <${StorageControl} storage=${state.storage} onMove=${(/** @type {string} */ storage) => move({ storage })} onRest=${rest} />
      ${FIRST.map(name => options.find((/** @type {any} */ option) => option.name === name)).map(control)}
      <details><summary>Every option</summary>${options.filter((/** @type {any} */ option) => !FIRST.includes(option.name)).map(control)}</details>
    </details>
    <div class="body">${answer && html`<${Charts} answer=${answer} />
      <h2>The same on the command line</h2><${Code} lines=${answer.commands} /><${Blocks} blocks=${answer.view.blocks} />`}</div></main>`;
}

/** @param {{answer: any}} props */
function Charts({ answer }) {
  const { columns, result } = answer, shared = { times: columns.t_s, sync: "run" }, { tps_low, tps_high } = result.summary;
  const limits = tps_low === null ? [] : [{ name: "80 % interval from", value: tps_low, colour: "--quiet" }, { name: "to", value: tps_high, colour: "--quiet" }];
  const share = (/** @type {number[]} */ values) => values.map(value => value === null ? null : 100 * value);
  const caches = [["cached", "cached_share", "--good"], ["dirty", "dirty_share", "--warn"]].filter(([, column]) => columns[column]).map(([name, column, colour]) => ({ name, values: share(columns[column]), colour }));
  return html`<section class="day"><h2>The run</h2>
    <${Panel} ...${shared} title="Transactions a second" unit="simulated" lines=${[{ name: "tps", values: columns.tps, colour: "--simulated", filled: true }]} limits=${limits} height=${230} described="Transactions a second over the run" />
    <${Panel} ...${shared} title="Response time p95" unit="ms, simulated" lines=${[{ name: "p95", values: columns.p95_ms, colour: "--simulated" }]} height=${140} described="95th percentile of response times over the run" />
    ${caches.length > 0 && html`<${Panel} ...${shared} title="Cache" unit="% of it, simulated" most=${100} lines=${caches} height=${120} described="How full the cache is, and how much of it is dirty" />`}
    ${columns.balance_percent && html`<${Panel} ...${shared} title="Credit balance" unit="%, simulated" most=${100} lines=${[{ name: "balance", values: columns.balance_percent, colour: "--simulated" }]} height=${110} described="Credit balance over the run" />`}
    <${Density} values=${columns.tps.slice(Math.floor(columns.tps.length / 2))} /></section>`;
}

const BINS = 40;

/** How often each rate was: a steady server has one narrow hill. @param {{values: number[]}} props */
function Density({ values }) {
  const low = Math.min(...values), high = Math.max(...values), span = high - low || 1;
  const counts = new Array(BINS).fill(0);
  for (const value of values) counts[Math.min(BINS - 1, Math.floor((value - low) / span * BINS))]++;
  const top = Math.max(...counts), sorted = [...values].sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const words = `One second in twenty has fewer than ${figure(at(0.05))} transactions, half of them more than ${figure(at(0.5))}, one in twenty more than ${figure(at(0.95))}.`;
  return html`<figure class="density"><figcaption><strong>How often each rate was</strong> <span class="unit">seconds of the second half, simulated</span></figcaption>
    <svg viewBox="0 0 ${BINS * 10} 90" preserveAspectRatio="none" height="90" role="img" aria-label=${words}>${counts.map((count, index) => html`<rect x=${index * 10 + 1} y=${90 - 88 * count / top} width="8" height=${88 * count / top} />`)}</svg>
    <p class="ends"><span>${figure(low)} tps</span><span>${figure(high)} tps</span></p><p class="near">${words}</p></figure>`;
}
