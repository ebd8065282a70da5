// @ts-check
// A database on a storage: transactions a second, response times, how dense they are, how the cache warms.
import { html, steady } from "./html.js";
import { Blocks, Cards, Code, Refused, filled } from "./view.js";
import { Control, usualOf } from "./controls.js";
import { StorageControl, wordsOf } from "./storage.js";
import { Panel } from "./lines.js";
import { figure, number, percent } from "./figures.js";
import { newestOf, newestRefusal } from "./asking.js";
import { WorkloadControl } from "./workload.js";

const FIRST = ["threads", "cache_gib", "growth", "instance", "start", "seconds", "log_storage"];

/** @param {any} page */
export function DatabaseView(page) {
  const { facts, state, run, course, move, rest } = page, { workload, storage, settings } = state, question = { workload, storage, settings };
  // The model's answer is ahead of the sentences for as long as a hand moves a control.
  const answer = run.answer, { ahead, columns } = newestOf(course, run), refusal = newestRefusal([run, course], question);
  const view = ahead ? movedView(summaryOf(columns, course.answer.caps), course, facts) : answer?.view;
  const control = (/** @type {any} */ option) => html`<${Control} key=${option.name} option=${option} usual=${usualOf(option, answer)} value=${state.settings[option.name] ?? null}
    onMove=${(/** @type {any} */ value) => move({ settings: { [option.name]: value } })} onRest=${rest} />`;
  const options = facts.options.predict;
  return html`<main class="sides" aria-busy=${run.busy && !ahead}>
    <div class="head">${view && !refusal ? html`<h1>${view.title}.</h1><p class="sub">${answer ? `${answer.view.subtitle}, ` : ""}simulated</p>` : html`<h1>${refusal ? "This cannot be run" : "Running"}</h1>`}
      ${refusal && html`<${Refused} refusal=${refusal} />`}
      ${view && !refusal && html`<${Cards} cards=${view.cards} />`}</div>
    <details class="side" open=${page.wide}><summary>The question</summary>
      <${WorkloadControl} ...${page} />
      <${StorageControl} storage=${state.storage} onMove=${(/** @type {string} */ storage) => move({ storage })} onRest=${rest} />
      ${FIRST.map(name => options.find((/** @type {any} */ option) => option.name === name)).map(control)}
      <details><summary>Every option</summary>${options.filter((/** @type {any} */ option) => !FIRST.includes(option.name)).map(control)}</details>
    </details>
    <div class="body">${columns && html`<${Charts} columns=${columns} interval=${ahead ? null : answer?.result.summary} />`}
      ${answer && html`<h2>The same on the command line</h2><${Code} lines=${answer.commands} /><${Blocks} blocks=${answer.view.blocks} />`}</div></main>`;
}

/** What the second half of a run comes to, and what limits all of it; as the server's summary, before it is there.
 * @param {Record<string, Float64Array>} columns @param {string[]} caps what the column `cap` has places in */
function summaryOf(columns, caps) {
  const half = (/** @type {string} */ column) => columns[column].slice(columns[column].length >> 1);
  const median = (/** @type {Float64Array} */ values) => { const sorted = values.sort(), middle = sorted.length >> 1; return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2; };
  const rates = half("tps"), seconds = new Float64Array(caps.length);
  for (const place of columns.cap) seconds[place]++;
  return { tps: rates.reduce((sum, rate) => sum + rate, 0) / rates.length, caps: Object.fromEntries(caps.map((cap, place) => [cap, seconds[place] / columns.cap.length])), ...Object.fromEntries(["p50_ms", "p95_ms", "p99_ms"].map(name => [name, median(half(name))])) };
}

/** Headline and cards while a slider moves: those of the server but for the interval. @param {any} summary @param {any} course @param {any} facts */
function movedView(summary, { answer, question }, { words: { unit, run: { title, cards: [rate, ...cards] } }, caps }) {
  const [cap, share] = Object.entries(/** @type {Record<string, number>} */ (summary.caps)).sort((a, b) => b[1] - a[1])[0], { tps, p50_ms, p95_ms, p99_ms } = summary;
  const figures = { name: answer.name, tps: number(tps), storage: wordsOf(question.storage), rate: number(tps, 4), p50: number(p50_ms), p95: number(p95_ms), p99: number(p99_ms), share: percent(share), cap: (caps[cap] ?? cap).replace(/^the /, "") };
  return filled(title, [{ ...rate, meaning: "The interval follows when you let go." }, ...cards], figures, unit);
}

const Charts = steady((/** @type {{columns: any, interval: any}} */ { columns, interval }) => {
  const shared = { times: columns.t_s, sync: "run" }, { tps_low = null, tps_high = null } = interval ?? {};
  const limits = tps_low === null ? [] : [{ name: "80 % interval from", value: tps_low, colour: "--quiet" }, { name: "to", value: tps_high, colour: "--quiet" }];
  const share = (/** @type {number[]} */ values) => values.map(value => value === null ? null : 100 * value);
  const caches = [["cached", "cached_share", "--simulated"], ["dirty", "dirty_share", "--tried"]].filter(([, column]) => columns[column]).map(([name, column, colour]) => ({ name, values: share(columns[column]), colour }));
  return html`<section class="day"><h2>The run</h2>
    <${Panel} ...${shared} title="Transactions a second" unit="simulated" lines=${[{ name: "tps", values: columns.tps, colour: "--simulated", filled: true }]} limits=${limits} height=${230} described="Transactions a second over the run" />
    <${Panel} ...${shared} title="Response time p95" unit="ms, simulated" lines=${[{ name: "p95", values: columns.p95_ms, colour: "--simulated" }]} height=${140} described="95th percentile of response times over the run" />
    ${caches.length > 0 && html`<${Panel} ...${shared} title="Cache" unit="% of it, simulated" most=${100} lines=${caches} height=${120} described="How full the cache is, and how much of it is dirty" />`}
    ${columns.balance_percent && html`<${Panel} ...${shared} title="Credit balance" unit="%, simulated" most=${100} lines=${[{ name: "balance", values: columns.balance_percent, colour: "--simulated" }]} height=${110} described="Credit balance over the run" />`}
    <${Density} values=${columns.tps.slice(columns.tps.length >> 1)} /></section>`;
});

const BINS = 40;

/** How often each rate was: a steady server has one narrow hill. @param {{values: ArrayLike<number>}} props */
function Density({ values }) {
  const sorted = Float64Array.from(values).sort(), low = sorted[0], high = sorted[sorted.length - 1], span = high - low || 1;
  const counts = new Array(BINS).fill(0);
  for (const value of sorted) counts[Math.min(BINS - 1, Math.floor((value - low) / span * BINS))]++;
  const top = Math.max(...counts);
  const at = (/** @type {number} */ share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const words = `One second in twenty has fewer than ${figure(at(0.05))} transactions, half of them more than ${figure(at(0.5))}, one in twenty more than ${figure(at(0.95))}.`;
  return html`<figure class="density"><figcaption><strong>How often each rate was</strong> <span class="unit">seconds of the second half, simulated</span></figcaption>
    <svg viewBox="0 0 ${BINS * 10} 90" preserveAspectRatio="none" height="90" role="img" aria-label=${words}>${counts.map((count, index) => html`<rect x=${index * 10 + 1} y=${90 - 88 * count / top} width="8" height=${88 * count / top} />`)}</svg>
    <p class="ends"><span>${figure(low)} tps</span><span>${figure(high)} tps</span></p><p class="near">${words}</p></figure>`;
}
