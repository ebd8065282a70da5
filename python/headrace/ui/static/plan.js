// @ts-check
// The plan: what to buy, what it saves, whether it holds; then the day, the choices and the commands.
import { Folded, html, steady } from "./html.js";
import { Blocks, Cards, Code, Refused, Title, partsOf, whole } from "./view.js";
import { Control, Goals } from "./controls.js";
import { StorageControl } from "./storage.js";
import { Frontier } from "./frontier.js";
import { Panel } from "./lines.js";
import { NEVER_MS, figure, latency, span } from "./figures.js";
import { WorkloadControl } from "./workload.js";

// The options that most questions move; the others are folded.
const FIRST = ["growth", "months", "free_percent", "max_volumes", "size_gib", "threads", "compare", "instances", "on"];

/** @type {string[]} */
const NO_GOALS = []; // the same ones, so that nothing is drawn again for them

/** @param {any} page */
export function PlanView(page) {
  const { facts, state, plan, kind, move, rest } = page;
  const answer = plan.answer, opened = !!state.texts.file, set = (/** @type {string} */ name) => (/** @type {any} */ value) => move({ settings: { [name]: value } });
  const inForce = answer ? answer.result.goals : NO_GOALS;
  const fits = (/** @type {any} */ option) => option.name !== "goals" && option.name !== "default_goals" && (option.scope !== "Database" || kind === "database")
    && (option.scope !== "With --on" || (state.settings.on ?? ["ec2"]).join() !== "ec2");
  const options = facts.options.plan.filter(fits);
  const control = (/** @type {any} */ option) => html`<${Control} key=${option.name} option=${option} value=${state.settings[option.name] ?? null} onMove=${set(option.name)} onRest=${rest} />`;
  return html`<main class="sides" aria-busy=${plan.busy}>
    <div class="head">${answer ? html`<${Title} words=${`${answer.view.title}.`} /><p class="sub">${whole(answer.view.subtitle)}</p>` : html`<h1>${plan.refusal ? opened ? "This file cannot be shown" : "This cannot be planned" : opened ? "Opening the plan" : "Planning"}</h1>`}
      ${plan.refusal && html`<${Refused} refusal=${plan.refusal} />`}
      ${answer && html`<${Cards} cards=${answer.view.cards} /><${Blocks} blocks=${partsOf(answer.view).warnings} />`}</div>
    <details class="side" open=${page.wide}><summary>The question</summary>
      <${WorkloadControl} ...${page} />
      ${opened ? html`<p class="near">${answer ? `${answer.name} is shown as it was written. ` : ""}Choose a load above to plan anew.</p>` : html`<${Goals} goals=${state.settings.goals ?? NO_GOALS} inForce=${inForce} metrics=${facts.metrics[kind]} onMove=${set("goals")} onRest=${rest} />
      ${FIRST.map(name => options.find((/** @type {any} */ option) => option.name === name)).filter(Boolean).map(control)}
      <details><summary>Every option</summary>${options.filter((/** @type {any} */ option) => !FIRST.includes(option.name)).map(control)}</details>`}
    </details>
    <div class="body">
      ${kind === "demand" && !opened && html`<${Day} day=${page.day} storage=${state.storage} move=${move} rest=${rest} />`}
      ${answer && html`<${Frontier} points=${answer.result.choices.frontier} subject=${answer.result.subject} best=${answer.result.recommended ?? answer.result.choices.closest[0] ?? null} today=${answer.result.choices.compared} goal=${goalOf(answer.result)} onPick=${opened ? null : page.pick} />
        ${answer.commands.length > 0 && html`<h2>${opened ? "Prove it on the command line" : "The same on the command line"}</h2><${Code} lines=${answer.commands} />`}
        <${Blocks} blocks=${partsOf(answer.view).rest} />`}
    </div></main>`;
}

/** The limit that the chart draws. @param {any} result */
function goalOf(result) {
  const text = result.goals.find((/** @type {string} */ goal) => goal.startsWith(result.subject === "demand" ? "p99_ms<=" : "tps>="));
  return text ? Number(text.split("=")[1]) : null;
}

const COLOURS = { recommended: "--good", today: "--warn", tried: "--tried" };

/** The day on what is recommended, on today's storage, and on one that is tried. @param {{day: any, storage: string, move: (change: any) => void, rest: () => void}} props */
function Day({ day: { answer, refusal }, storage, move, rest }) {
  if (!answer && !refusal) return null;
  return html`<section class="day"><h2>The day</h2>${refusal ? html`<${Refused} refusal=${refusal} />` : html`<${Charts} answer=${answer} />`}
    <details class="try" open=${!!storage}><summary>Try a storage of your own</summary><${StorageControl} storage=${storage || "gp3:500"} onMove=${(/** @type {string} */ storage) => move({ storage })} onRest=${rest} /></details></section>`;
}

const Charts = steady((/** @type {{answer: any}} */ { answer: { runs, clock_start } }) => {
  const times = runs[0].columns.t_s, clock = clock_start !== null;
  const colour = (/** @type {any} */ run) => COLOURS[/** @type {"today"} */ (run.role)];
  const lines = (/** @type {string} */ column) => runs.filter((/** @type {any} */ run) => run.columns[column]).map((/** @type {any} */ run) => ({ name: run.role, values: run.columns[column], colour: colour(run) }));
  const demand = { name: "asked", values: runs[0].columns.asked_iops, colour: "--simulated", filled: true }, most = Math.max(...demand.values);
  const limits = runs.filter((/** @type {any} */ run) => run.sustained_iops && run.sustained_iops < 3 * most).map((/** @type {any} */ run) => ({ name: `${run.role}'s limit`, value: run.sustained_iops, colour: colour(run) }));
  const shared = { times, clock, sync: "day" };
  const balances = lines("balance_percent"), today = runs.find((/** @type {any} */ run) => run.role === "today");
  const marks = Array.from(today?.columns.throttled_s ?? [], seconds => seconds > 0);
  const waits = today?.summary?.throttled_s > 0 ? `shaded: requests wait on today's storage, ${span(today.summary.throttled_s)}` : "";
  return html`<${Panel} ...${shared} title="I/Os a second" marks=${marks} unit=${waits || "simulated"} lines=${[demand, ...lines("iops")]} limits=${limits} height=${230} described=${`I/Os a second that are asked, and delivered by ${runs.map((/** @type {any} */ run) => run.storage).join(", ")}`} />
    <${Panel} ...${shared} title="I/O p99" unit="ms, simulated; longer than a minute is drawn as a minute" log lines=${lines("p99_ms").map((/** @type {any} */ line) => ({ ...line, values: line.values.map((/** @type {number} */ ms) => Math.min(ms, NEVER_MS)) }))} height=${150} described="99th percentile of the latency of I/Os over the day" />
    ${balances.length > 0 && html`<${Panel} ...${shared} title="Credit balance" unit="%, simulated" most=${100} lines=${balances} height=${120} described="Credit balance over the day" />`}
    <${Folded} title="The day as a table" draw=${() => html`<${HourTable} runs=${runs} />`} />`;
});

/** A row an hour: what the charts show, to be read. @param {{runs: any[]}} props */
function HourTable({ runs }) {
  const times = runs[0].columns.t_s, hours = [...new Set(Array.from(times, (/** @type {number} */ t) => Math.floor(t / 3600)))].slice(0, 168);
  const of = (/** @type {Float64Array | undefined} */ values, /** @type {number} */ hour) => Array.from(values ?? []).filter((value, index) => Math.floor(times[index] / 3600) === hour && !Number.isNaN(value));
  const mean = (/** @type {number[]} */ values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  return html`<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">hour</th><th scope="col" class="right">IOPS asked</th>${runs.map(run => html`<th scope="col" class="right">IOPS, ${run.role}</th><th scope="col" class="right">worst p99, ${run.role}</th>`)}</tr></thead>
    <tbody>${hours.map(hour => html`<tr><td data-title="hour">${hour}</td><td class="right" data-title="IOPS asked">${figure(mean(of(runs[0].columns.asked_iops, hour)))}</td>${runs.map(run => html`<td class="right" data-title=${`IOPS, ${run.role}`}>${figure(mean(of(run.columns.iops, hour)))}</td>
      <td class="right" data-title=${`worst p99, ${run.role}`}>${latency(Math.max(...of(run.columns.p99_ms, hour), 0))}</td>`)}</tr>`)}</tbody></table></div>`;
}
