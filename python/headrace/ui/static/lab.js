// @ts-check
// The lab, second by second: what binds, its volumes, and the server on them.
import { Folded, html } from "./html.js";
import { headers } from "./asking.js";
import { Cards, Code, Refused, Title, Rows } from "./view.js";
import { Panel } from "./lines.js";
import { ChangePanel } from "./changes.js";
import { figure, span } from "./figures.js";

const SHOWN_S = 600; // ten minutes of seconds
const GAP_S = 3; // a longer silence is drawn as a gap, and not as a line through it
const DAY_S = 86_400;
const AGAIN_MS = 2000; // until a stream that was lost is asked for again
const COLOURS = ["--measured", "--tried", "--third", "--fourth", "--quiet", "--ink"];

/** Reads the stream into `lab` and calls `show` for each moment, again and again until it is stopped.
 * @param {any} lab @param {() => void} show @returns {() => void} */
export function follow(lab, show) {
  const stopped = new AbortController();
  read(lab, show, stopped.signal);
  return () => stopped.abort();
}

/** @param {any} lab @param {() => void} show @param {AbortSignal} signal */
async function read(lab, show, signal) {
  while (!signal.aborted) {
    try {
      const answer = await fetch("/api/live", { method: "POST", body: "{}", signal, headers: headers() });
      if (!answer.ok || !answer.body) throw (await answer.json()).error;
      let rest = "";
      lab.newest = -Infinity;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const lines = (rest + part.value).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) take(lab, JSON.parse(line));
        show();
      }
      // An end without an error says nothing of the lab: the next request does.
    } catch (refusal) {
      if (signal.aborted) return;
      lab.lost = true;
      lab.refusal = refusal instanceof Error ? { value: "headrace page", rule: "does not answer", source: "", hint: "Run headrace page again." } : refusal;
    }
    show();
    if (!lab.ended) await new Promise(rested => setTimeout(rested, AGAIN_MS));
    lab.ended = false;
  }
}

/** Takes a line of the stream. @param {any} lab @param {any} line */
export function take(lab, line) {
  if (line.error) { lab.refusal = line.error; lab.lost = true; return; }
  lab.refusal = null; lab.lost = false;
  if (line.ended) { lab.ended = true; return; } // other volumes are attached: the next stream has them
  if (line.commands) { lab.commands = line.commands; return; }
  const last = lab.moments[lab.moments.length - 1], before = lab.newest;
  lab.newest = line.t_unix;
  // Within a stream time goes back where the clock was set back: what is later than the clock has not been yet. At its beginning are
  // moments from before the last stream was lost.
  if (last && line.t_unix <= last.t_unix && !(line.t_unix < before)) return;
  lab.moments = [...lab.moments.filter((/** @type {any} */ moment) => moment.t_unix > line.t_unix - SHOWN_S && moment.t_unix < line.t_unix), line];
}

/** @param {any} page */
export function LabView({ lab, facts, state, note }) {
  const change = facts.actions.length > 0 && html`<${ChangePanel} actions=${facts.actions} volumes=${lab.moments[lab.moments.length - 1]?.volumes ?? []} />`;
  const now = lab.moments[lab.moments.length - 1];
  if (!now) return html`<main class="alone"><h1>${lab.refusal ? "There is no lab to show" : "Waiting for the first second"}</h1>
    ${lab.refusal && html`<${Refused} refusal=${lab.refusal} /><h2>How to make one</h2><${Code} lines=${["headrace lab up", "headrace volume create gp3:20 --name db --attach"]} />`}${change}</main>`;
  /** @type {string[]} */
  const drawn = (state.texts.drawn ? state.texts.drawn.split(",") : now.volumes.map((/** @type {any} */ volume) => volume.id)).slice(0, COLOURS.length);
  const binds = now.verdict.word === "binds" || now.verdict.word === "degraded";
  return html`<main class="alone"><${Title} words=${`${lab.lost ? "The lab does not answer" : `${now.verdict.word[0].toUpperCase()}${now.verdict.word.slice(1)}: ${now.verdict.text}`}.`} />
    <p class="sub" role="status">${lab.lost ? "The lab does not answer now; asked again every 2 s. What is drawn is older." : `${now.volumes.length > 3 ? `${now.volumes.length} volumes of the lab` : now.target}, measured, every ${figure(now.grain_s)} s`}</p>
    ${lab.lost && lab.refusal && html`<${Refused} refusal=${lab.refusal} />`}
    <${Cards} cards=${cardsOf(now, binds)} />
    <${Charts} moments=${lab.moments} drawn=${drawn} every=${now.volumes.length} />
    <${Folded} title="The last minutes as a table" draw=${() => html`<${Minutes} moments=${lab.moments} drawn=${drawn} />`} />
    <h2>Volumes</h2><${Volumes} volumes=${now.volumes} drawn=${drawn} onDraw=${(/** @type {string} */ id) => note({ drawn: (drawn.includes(id) ? drawn.filter(other => other !== id) : [...drawn, id].slice(-COLOURS.length)).join() })} />
    ${now.notes.length > 0 && html`<ul>${now.notes.map((/** @type {string} */ note) => html`<li>${note}</li>`)}</ul>`}
    <h2>The same on the command line</h2><${Code} lines=${lab.commands} />${change}</main>`;
}

/** @param {any} now @param {boolean} binds */
function cardsOf(now, binds) {
  const iops = now.volumes.reduce((/** @type {number} */ sum, /** @type {any} */ volume) => sum + (volume.read_iops ?? 0) + (volume.write_iops ?? 0), 0);
  const emptying = now.volumes.filter((/** @type {any} */ volume) => volume.left && !volume.left.never).sort((/** @type {any} */ a, /** @type {any} */ b) => a.left.seconds - b.left.seconds)[0];
  const over = now.volumes.flatMap((/** @type {any} */ volume) => Object.entries(volume.exceeded).map(([limit, share]) => ({ limit, share, name: volume.name ?? volume.id }))).sort((/** @type {any} */ a, /** @type {any} */ b) => b.share - a.share)[0];
  const cards = [now.server?.tps !== null && now.server ? { label: now.server.version ?? "server", figure: `${figure(now.server.tps)} tps`, meaning: `${figure(iops)} IOPS; clients wait for I/O ${share(now.server.io_wait)} of their time`, mark: "" }
    : { label: "All volumes", figure: `${figure(iops)} IOPS`, meaning: `${now.volumes.length} attached`, mark: "" }];
  if (over) cards.push({ label: "Longest over a limit, this second", figure: share(over.share), meaning: `${over.name}: ${over.limit.replace("-", " ").replace("iops", "IOPS")}`, mark: binds ? "warn" : "good" });
  if (emptying) cards.push({ label: "Credits that are empty first", figure: emptying.left.seconds < 1 ? "now" : span(emptying.left.seconds), meaning: `${emptying.name ?? emptying.id}, at this rate; ${share(emptying.balance)} are there`, mark: emptying.left.seconds < 3600 ? "warn" : "" });
  return cards;
}

/** Moments over the seconds of the day in which they begin, here; null where nothing was heard. @param {any[]} moments */
export function overDay(moments) {
  const start = moments[0].t_unix, first = start - (start - 60 * new Date(1000 * start).getTimezoneOffset()) % DAY_S;
  /** @type {number[]} */
  const times = [];
  /** @type {(any | null)[]} */
  const rows = [];
  for (const moment of moments) {
    const at = moment.t_unix - first, before = times[times.length - 1];
    if (before !== undefined && at - before > GAP_S * Math.max(1, moment.grain_s)) { times.push(before + moment.grain_s); rows.push(null); }
    times.push(at); rows.push(moment);
  }
  return { times, rows };
}

/** @param {{moments: any[], drawn: string[], every: number}} props */
function Charts({ moments, drawn: ids, every }) {
  const { times, rows } = overDay(moments);
  const lines = (/** @type {(volume: any) => number | null} */ read) => ids.map((id, index) => {
    const values = rows.map(row => { const volume = row?.volumes.find((/** @type {any} */ candidate) => candidate.id === id); return volume ? read(volume) : null; });
    return { name: nameOf(moments, id), values, colour: COLOURS[index] };
  }).filter(line => line.values.some(value => value !== null));
  const worst = (/** @type {any} */ volume) => Math.max(volume.read_p99_ms ?? 0, volume.write_p99_ms ?? 0) || null;
  const which = every > ids.length ? `; ${ids.length} of ${every} volumes, chosen in the table` : "";
  const shared = { times, sync: "lab", clock: true }, balances = lines(volume => volume.balance === null ? null : 100 * volume.balance), latencies = lines(worst);
  return html`<section class="day"><${Panel} ...${shared} title="I/Os a second" unit=${`measured${which}`} lines=${lines(volume => (volume.read_iops ?? 0) + (volume.write_iops ?? 0))} height=${200} described="I/Os a second of each volume" />
    ${latencies.length > 0 && html`<${Panel} ...${shared} title="p99 of reads or writes, the longer" unit="ms, measured" log lines=${latencies} height=${140} described="99th percentile of the latency of each volume" />`}
    ${balances.length > 0 && html`<${Panel} ...${shared} title="Credit balance" unit="%, measured" most=${100} lines=${balances} height=${120} described="Credit balance of each volume" />`}
    ${rows.some(row => row?.server) && html`<${Panel} ...${shared} title="Transactions a second" unit="measured" lines=${[{ name: "server", values: rows.map(row => row?.server?.tps ?? null), colour: "--measured" }]} height=${120} described="Transactions a second of the server" />`}</section>`;
}

/** What the charts show, a row a minute of each volume that is drawn. @param {{moments: any[], drawn: string[]}} props */
function Minutes({ moments, drawn }) {
  /** @type {Map<string, any[]>} */
  const minutes = new Map();
  for (const moment of moments) {
    const at = new Date(1000 * moment.t_unix), clock = `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
    for (const volume of moment.volumes) if (drawn.includes(volume.id)) { const key = `${clock} ${volume.id}`; minutes.set(key, [...(minutes.get(key) ?? []), volume]); }
  }
  const mean = (/** @type {any[]} */ seen, /** @type {(volume: any) => number} */ read) => seen.reduce((sum, volume) => sum + read(volume), 0) / seen.length;
  const rows = [...minutes].map(([key, seen]) => { const last = seen[seen.length - 1]; return [key.slice(0, 5), last.name ?? last.id, figure(mean(seen, volume => (volume.read_iops ?? 0) + (volume.write_iops ?? 0))),
    figure(Math.max(0, ...seen.map(volume => Math.max(volume.read_p99_ms ?? 0, volume.write_p99_ms ?? 0)))), last.bursts ? share(last.balance) : "no credits"]; });
  const columns = [["minute", ""], ["volume", "key"], ["IOPS", "number"], ["worst p99 ms", "number"], ["balance", "number"]].map(([title, kind]) => ({ title, kind }));
  return html`<${Rows} table=${{ columns, rows, title: "Measured" }} indices=${[0, 1, 2, 3, 4]} />`;
}

/** The name that a volume had last. @param {any[]} moments @param {string} id */
function nameOf(moments, id) {
  for (let at = moments.length - 1; at >= 0; at--) {
    const volume = moments[at].volumes.find((/** @type {any} */ candidate) => candidate.id === id);
    if (volume) return volume.name ?? id;
  }
  return id;
}

const COLUMNS = ["volume", "storage", "IOPS", "MiB/s", "queue", "read p99 ms", "write p99 ms", "over its limits", "balance", "head-room"];

/** The volumes as they are; where there are more than colours, those that are drawn are chosen here.
 * @param {{volumes: any[], drawn: string[], onDraw: (id: string) => void}} props */
function Volumes({ volumes, drawn, onDraw }) {
  const chooses = volumes.length > COLOURS.length;
  const cells = (/** @type {any} */ volume) => [volume.name ?? volume.id, volume.spec ?? "-", figure((volume.read_iops ?? 0) + (volume.write_iops ?? 0)), figure((volume.read_mib_s ?? 0) + (volume.write_mib_s ?? 0)), figure(volume.queue),
    figure(volume.read_p99_ms), figure(volume.write_p99_ms), share(Math.max(0, ...Object.values(volume.exceeded).map(Number))), volume.bursts ? share(volume.balance) : "no credits", share(volume.headroom)];
  return html`<div class="scroll volumes" tabindex="0"><table><thead><tr>${chooses && html`<th scope="col">drawn</th>`}${COLUMNS.map((name, index) => html`<th scope="col" class=${index > 1 ? "right" : "whole"}>${name}</th>`)}</tr></thead>
    <tbody>${volumes.map(volume => html`<tr key=${volume.id}>${chooses && html`<td data-title="drawn"><input type="checkbox" aria-label=${`Draw ${volume.name ?? volume.id}`} checked=${drawn.includes(volume.id)} onChange=${() => onDraw(volume.id)} /></td>`}${cells(volume).map((cell, index) => html`<td class=${index > 1 ? "right" : "whole"} data-title=${COLUMNS[index]}>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** @param {number | null | undefined} value */
const share = value => value === null || value === undefined ? "-" : `${figure(100 * value)} %`;
