// @ts-check
// Replicas: one that is predicted behind a database, and those of the lab as they are now.
import { html, steady } from "./html.js";
import { Blocks, Cards, Code, Refused, Title, filled, partsOf } from "./view.js";
import { Control, Slider, usualOf } from "./controls.js";
import { StorageControl, wordsOf } from "./storage.js";
import { WorkloadControl } from "./workload.js";
import { Panel } from "./lines.js";
import { figure, number, span } from "./figures.js";
import { newestOf, newestRefusal } from "./asking.js";

const FIRST = ["threads", "cache_gib", "growth", "instance", "seconds"], SOURCES_OWN = ["form"];

/** @param {any} page */
export function ReplicasView(page) {
  const { facts, state, replica, following, topology, move, rest } = page, { texts } = state, { answer } = replica, question = questionOf(state);
  const { ahead, columns } = newestOf(following, replica), refusal = newestRefusal([replica, following], question);
  const put = (/** @type {Record<string, string>} */ change) => move({ texts: change });
  const options = facts.options.predict.filter((/** @type {any} */ option) => !SOURCES_OWN.includes(option.name));
  const control = (/** @type {any} */ option) => html`<${Control} key=${option.name} option=${option} usual=${usualOf(option, answer)} value=${state.settings[option.name] ?? null} onMove=${(/** @type {any} */ value) => move({ settings: { [option.name]: value } })} onRest=${rest} />`;
  const view = ahead ? movedView(following.answer.summary, following.question.replica, facts.words) : answer?.view;
  return html`<main class="sides" aria-busy=${replica.busy && !ahead}>
    <div class="head"><${Title} words=${view && !refusal ? `${view.title}.` : refusal ? "This cannot be run" : "Running"} />
      <p class="sub">${answer ? `${answer.view.subtitle}; simulated` : ""}</p>
      ${refusal && html`<${Refused} refusal=${refusal} />`}
      ${view && !refusal && html`<${Cards} cards=${view.cards} />`}
      ${answer && !refusal && html`<${Blocks} blocks=${partsOf(answer.view).warnings} />`}</div>
    <details class="side" open=${page.wide}><summary>The question</summary>
      <${WorkloadControl} ...${page} />
      <${StorageControl} legend="The source's storage" storage=${state.storage} onMove=${(/** @type {string} */ storage) => move({ storage })} onRest=${rest} />
      <${StorageControl} legend="The replica's storage" storage=${texts.replica} onMove=${(/** @type {string} */ storage) => put({ replica: storage })} onRest=${rest} />
      <${Slider} label="Applier threads" value=${texts.workers ? Number(texts.workers) : null} usual="as its version has it" unit="" from=${1} to=${64} least=${0} most=${1024} whole onMove=${(/** @type {number | null} */ count) => put({ workers: count === null ? "" : String(count) })} onRest=${rest} />
      ${FIRST.map(name => options.find((/** @type {any} */ option) => option.name === name)).map(control)}
      <details><summary>Every option</summary>${options.filter((/** @type {any} */ option) => !FIRST.includes(option.name)).map(control)}</details></details>
    <div class="body">${columns && html`<${Course} columns=${columns} />`}
      ${answer && html`<h2>The same on the command line</h2><${Code} lines=${answer.commands} /><${Blocks} blocks=${partsOf(answer.view).rest} />`}
      <${Topology} topology=${topology} /></div></main>`;
}

/** What a state of the view asks. @param {any} state */
export const questionOf = ({ workload, settings, storage, texts }) => ({ workload, storage, settings, replica: texts.replica, workers: texts.workers ? Number(texts.workers) : null });

/** Headline and cards while a slider moves: those of the server but for the chance. @param {any} summary @param {string} storage @param {any} words */
function movedView(summary, storage, { unit, replica: words }) {
  const { onset_s, catch_up_s, peak_lag_s, applier_tps, source_tps } = summary, keepsUp = onset_s === null;
  const figures = { storage: wordsOf(storage), onset: span(onset_s), catch_up: span(catch_up_s), peak_lag: peak_lag_s < 120 ? `${number(peak_lag_s)} s` : span(peak_lag_s), applier_tps: number(applier_tps, 4), source_tps: number(source_tps, 4) };
  const [rate, lag] = words.cards, cards = [rate, catch_up_s === null ? words.not_applied : lag];
  return filled(keepsUp ? words.keeps_up : words.falls_behind, cards, figures, keepsUp ? "good" : "warn");
}

const Course = steady((/** @type {{columns: any}} */ { columns }) => {
  const shared = { times: columns.t_s, sync: "replica" };
  return html`<section class="day"><h2>The run, and what is applied after it</h2>
    <${Panel} ...${shared} title="Lag" unit="s, simulated" lines=${[{ name: "lag", values: columns.lag_s, colour: "--simulated", filled: true }]} height=${200} described="Lag of the replica over the run" />
    <${Panel} ...${shared} title="Transactions a second" unit="simulated" lines=${[{ name: "source", values: columns.source_tps, colour: "--quiet" }, { name: "applied", values: columns.applied_tps, colour: "--simulated" }]} height=${170} described="Transactions a second of the source, and applied by the replica" />
    <${Panel} ...${shared} title="Backlog" unit="transactions, simulated" lines=${[{ name: "waiting", values: columns.backlog, colour: "--simulated" }]} height=${130} described="Transactions that wait to be applied" />
    ${columns.balance_percent && html`<${Panel} ...${shared} title="Credit balance of the replica" unit="%, simulated" most=${100} lines=${[{ name: "balance", values: columns.balance_percent, colour: "--simulated" }]} height=${110} described="Credit balance of the replica's volumes" />`}</section>`;
});

const MAKE = ["sudo $(command -v headrace) mysql up db --storage gp3:20 --memory-gib 1", "sudo $(command -v headrace) replica up r1 --of db --prepare-source"];

/** The lab's servers, measured. @param {{topology: any}} props */
function Topology({ topology }) {
  const { answer, refusal } = topology, none = answer && answer.servers.length === 0;
  return html`<section><h2>On the lab now, measured</h2>
    ${refusal && html`<${Refused} refusal=${refusal} />`}
    ${!answer && !refusal && html`<p class="near" role="status">Looking at the servers of the lab.</p>`}
    ${(none || refusal) && html`<p>${none ? "No server of the lab follows another." : "The lab's servers are not seen."} This makes a pair:</p><${Code} lines=${MAKE} />`}
    ${answer && !none && html`<p class="sub">${answer.view.title}${answer.view.subtitle ? `; ${answer.view.subtitle}` : ""}</p><${Cards} cards=${answer.view.cards} /><${Tree} servers=${answer.servers} links=${answer.links} />
      <${Blocks} blocks=${answer.view.blocks} /><${Code} lines=${answer.commands} />`}</section>`;
}

const BOX = { width: 150, height: 40, gapX: 90, gapY: 16 };

/** Who follows whom: each column follows the one on its left. @param {{servers: any[], links: any[]}} props */
function Tree({ servers, links }) {
  const depths = depthsOf(servers.map(server => server.name), links);
  /** @type {number[]} */
  const heights = [];
  const places = new Map(servers.map(server => { const depth = depths.get(server.name) ?? 0, row = heights[depth] ?? 0; heights[depth] = row + 1; return [server.name, { x: depth * (BOX.width + BOX.gapX), y: row * (BOX.height + BOX.gapY) }]; }));
  const width = heights.length * (BOX.width + BOX.gapX) - BOX.gapX + 2, height = Math.max(...heights) * (BOX.height + BOX.gapY);
  const words = links.map(link => `${link.to} follows ${link.from}${link.lag_s === null ? "" : `, ${figure(link.lag_s)} s behind`}`).join("; ");
  return html`<figure class="tree"><svg viewBox=${`-1 -1 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${words || "No server follows another."}>
    ${links.filter(link => places.has(link.from)).map(link => { const from = /** @type {any} */ (places.get(link.from)), to = /** @type {any} */ (places.get(link.to)), y1 = from.y + BOX.height / 2, y2 = to.y + BOX.height / 2;
      return html`<line x1=${from.x + BOX.width} y1=${y1} x2=${to.x} y2=${y2} /><text class="tick" x=${(from.x + BOX.width + to.x) / 2} y=${(y1 + y2) / 2 - 6} text-anchor="middle">${link.lag_s === null ? "?" : `${figure(link.lag_s)} s`}</text>`; })}
    ${servers.map(server => { const place = /** @type {any} */ (places.get(server.name)); return html`<g class=${server.problems || server.state !== "running" ? "warn" : "good"}><rect x=${place.x} y=${place.y} width=${BOX.width} height=${BOX.height} rx="8" /><text x=${place.x + BOX.width / 2} y=${place.y + BOX.height / 2 + 5} text-anchor="middle">${server.name.length > 18 ? `${server.name.slice(0, 17)}…` : server.name}</text></g>`; })}</svg></figure>`;
}

/** How many servers stand between a server and the one that follows nobody; a ring ends where it began. @param {string[]} names @param {any[]} links */
function depthsOf(names, links) {
  const sources = new Map(links.map(link => [link.to, link.from]));
  return new Map(names.map(name => { let depth = 0; const seen = new Set([name]); for (let above = sources.get(name); above && names.includes(above) && !seen.has(above); above = sources.get(above)) { seen.add(above); depth++; } return [name, depth]; }));
}
