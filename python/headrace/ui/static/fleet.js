// @ts-check
// A fleet: what each volume needs, what that saves and risks, and the script that changes what is chosen.
import { Component, Folded, html } from "./html.js";
import { Box } from "./controls.js";
import { SizedChart } from "./sized.js";
import { ask } from "./asking.js";
import { Blocks, Cards, Code, Refused, Title } from "./view.js";
import { Rows, ranksOf, sorted } from "./rows.js";
import { figure, latency, usd } from "./figures.js";
import { short } from "./lines.js";
import { scale } from "./scales.js";

const MOST_BYTES = 32 << 20; // what the server takes, before base64
const MOST_DOTS = 1000; // as a report draws; those that save most
const VERDICTS = { change: "Can be changed", grow: "Too small", unused: "Unused", keep: "Right as it is", withheld: "No advice" };
const PLAN = ["aws ec2 describe-volumes > volumes.json", "headrace fleet import metrics-*.json.gz --to points.parquet", "headrace fleet plan points.parquet --inventory volumes.json --to answers.parquet"];

// How every result of Headrace in JSON begins.
const RESULT = /^\s*\{\s*"schema"\s*:\s*"headrace-/;

/** Whether a file is a result, and no workload or recording. @param {File | undefined} file */
export const isResult = async file => !!file && RESULT.test(await file.slice(0, 200).text());

/** Sends a result file to be read. @param {File | undefined} file @param {any} page */
export async function openResult(file, page) {
  if (!file) return;
  if (file.size > MOST_BYTES) return page.refuse({ value: file.name, rule: `has ${(file.size / (1 << 20)).toFixed(0)} MiB; the page takes ${MOST_BYTES >> 20} MiB of results`, source: "docs/guide/page.md", hint: "headrace fleet report shows larger ones, and writes a page of them with --report." });
  try { page.opened(await ask("/api/open", { name: file.name, content: await base64Of(file) })); } catch (refusal) { page.refuse(refusal); }
}

/** @param {File} file @returns {Promise<string>} */
const base64Of = file => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.onload = () => done(String(reader.result).split(",")[1] ?? "");
  reader.onerror = () => fail({ value: file.name, rule: "cannot be read", source: "", hint: "Look at its permissions." });
  reader.readAsDataURL(file);
});

/** A place for a result file. @param {{page: any, words: string}} props */
export const ResultDrop = ({ page, words }) => html`<label class="drop"><input type="file" onChange=${(/** @type {any} */ event) => { openResult(event.target.files[0], page); event.target.value = ""; }} /><span>${words}</span></label>`;

/** @param {any} page */
export function FleetView(page) {
  const { fleet, state } = page, { answer, refusal } = fleet;
  if (!answer) return html`<main class="alone"><h1>${state.texts.file && !refusal ? "Opening the answers" : "The storage that each volume of a fleet needs"}</h1>
    <p class="sub">The answers of <code>headrace fleet plan</code>: every volume, the storage it could have, the saving, and how sure that is.</p>
    <div class="asked"><${ResultDrop} page=${page} words="Drop answers.parquet here, or choose it" /></div>
    ${refusal && html`<${Refused} refusal=${refusal} />`}<h2>How to make them</h2><${Code} lines=${PLAN} /></main>`;
  return html`<${Fleet} key=${state.texts.file} page=${page} answer=${answer} refusal=${refusal} />`;
}

/** @extends {Component<{page: any, answer: any, refusal: any}>} */
class Fleet extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    /** @type {{chosen: Set<number>, active: number | null, patch: any, refusal: any, busy: boolean, risk: number, growth: boolean, durability: boolean}} */
    this.state = { chosen: new Set(), active: null, patch: null, refusal: null, busy: false, risk: 10, growth: false, durability: false };
    /** @type {Record<string, any[]>} */
    const columns = props.answer.columns;
    this.every = columns.key.map((/** @type {string} */ _, /** @type {number} */ row) => row);
    this.words = this.every.map((/** @type {number} */ row) => ["key", "name", "account", "region", "instance", "today", "proposed", "why"].map(name => columns[name][row]).join(" ").toLowerCase());
    this.columns = columnsOf(columns);
    this.counts = countsOf(columns.verdict);
    /** Ranks by column: of those in the table as soon as the browser has nothing else to do. @type {Map<string, import("./rows.js").Ranks>} */
    this.ranked = new Map();
    const idle = globalThis.requestIdleCallback ?? setTimeout;
    for (const { name } of this.columns) idle(() => this.ranks(name));
    this.filtered = { key: "", rows: this.every };
    this.order = { key: "", rows: this.every };
    this.choose = this.choose.bind(this);
  }

  /** The rows of the filters, as they came; the same ones until a filter changes. */
  matching() {
    const { verdict = "", find = "" } = this.props.page.state.texts, { columns } = this.props.answer, key = JSON.stringify([verdict, find]);
    if (key === this.filtered.key) return this.filtered.rows;
    const parts = find.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.every.filter((/** @type {number} */ row) => (!verdict || columns.verdict[row] === verdict) && parts.every((/** @type {string} */ part) => this.words[row].includes(part)));
    this.filtered = { key, rows };
    return rows;
  }

  /** @param {string} name */
  ranks(name) {
    let ranks = this.ranked.get(name);
    if (!ranks) this.ranked.set(name, ranks = ranksOf(this.props.answer.columns[name]));
    return ranks;
  }

  /** The same in their order; the same ones until something of it changes. */
  rows() {
    const { sort = "" } = this.props.page.state.texts, { columns } = this.props.answer, matching = this.matching();
    const key = `${sort} ${this.filtered.key}`, name = sort.replace(/^-/, "");
    if (key !== this.order.key) this.order = { key, rows: name in columns ? sorted(matching, this.ranks(name), sort.startsWith("-")) : matching };
    return this.order.rows;
  }

  /** @param {number} row */
  choose(row) {
    const chosen = new Set(this.state.chosen);
    if (!chosen.delete(row)) chosen.add(row);
    this.setState({ chosen, patch: null });
  }

  async write() {
    const { page, answer } = this.props, { chosen, risk, growth, durability } = this.state, { file, inventory } = page.state.texts;
    const keys = chosen.size && chosen.size < this.every.length ? [...chosen].map(row => answer.columns.key[row]) : null;
    this.setState({ busy: true, refusal: null });
    try { this.setState({ busy: false, patch: await ask("/api/patch", { file, inventories: inventory.split(","), keys, max_risk_percent: risk, with_growth: growth, lower_durability: durability }) }); }
    catch (refusal) { this.setState({ busy: false, patch: null, refusal }); }
  }

  render() {
    const { page, answer, refusal } = this.props, { chosen, active } = this.state, { verdict = "", find = "", sort = "" } = page.state.texts;
    const rows = this.rows(), { columns } = answer, counts = this.counts;
    const saves = [...chosen].reduce((sum, row) => sum + columns.saves_usd[row], 0);
    return html`<main class="alone fleet"><${Title} words=${answer.view.title} /><p class="sub">${answer.view.subtitle}</p>
      ${refusal && html`<${Refused} refusal=${refusal} />`}<${Cards} cards=${answer.view.cards} />
      <${Dots} rows=${this.matching()} columns=${columns} savings=${this.ranks("saves_usd")} chosen=${chosen} onChoose=${this.choose} />
      <div class="filters"><label class="field text"><span class="name">Answer</span><select value=${verdict} onChange=${(/** @type {any} */ event) => page.note({ verdict: event.target.value })}><option value="">all, ${this.every.length.toLocaleString("en")}</option>
        ${Object.entries(VERDICTS).filter(([name]) => counts[name]).map(([name, words]) => html`<option value=${name}>${words}, ${counts[name].toLocaleString("en")}</option>`)}</select></label>
        <label class="field text"><span class="name">Words in id, name, account, region, instance, storage or reason</span><input type="search" value=${find} onInput=${(/** @type {any} */ event) => page.note({ find: event.target.value })} /></label></div>
      <p class="near" role="status">${rows.length.toLocaleString("en")} of ${this.every.length.toLocaleString("en")} devices, simulated; ${chosen.size.toLocaleString("en")} chosen${chosen.size ? `, which save ${usd(saves)} USD a month` : ""}.
        <button type="button" class="quiet" onClick=${() => this.setState({ chosen: new Set([...chosen, ...rows]), patch: null })}>Choose these</button> ${chosen.size > 0 && html`<button type="button" class="quiet" onClick=${() => this.setState({ chosen: new Set(), patch: null })}>Choose none</button>`}</p>
      <${Rows} label="Devices of the fleet, simulated" columns=${this.columns} rows=${rows} chosen=${chosen} sort=${sort} onSort=${(/** @type {string} */ name) => page.note({ sort: name })} onChoose=${this.choose} onActive=${(/** @type {number} */ row) => this.setState({ active: row })} />
      <p class="near">${active === null ? "Arrows move, space chooses." : `${columns.key[active]}${columns.name[active] ? ` ${columns.name[active]}` : ""}, account ${columns.account[active] || "not known"}, ${columns.region[active]}${columns.instance[active] ? `, on ${columns.instance[active]}` : ""}: ${columns.why[active]}.`}</p>
      ${this.patchPanel(page)}
      <h2>The same on the command line</h2><${Code} lines=${answer.commands} />
      <${Folded} title="Like answers together, as in the report" draw=${() => html`<${Blocks} blocks=${answer.view.blocks} />`} /></main>`;
  }

  patchPanel(/** @type {any} */ page) {
    const { chosen, patch, refusal, busy, risk, growth, durability } = this.state, inventories = (page.state.texts.inventory ?? "").split(",").filter(Boolean);
    const names = inventories.map((/** @type {string} */ file) => page.inventories.get(file) ?? "given before");
    return html`<section aria-busy=${busy}><h2>Change ${chosen.size ? `the ${chosen.size.toLocaleString("en")} chosen` : "all that saves"}</h2>
      <div class="asked patching"><${ResultDrop} page=${page} words=${names.length ? `Inventory: ${names.join(", ")}. Drop more of it here` : "Drop the inventory here: what aws ec2 describe-volumes wrote"} />
        <div><label class="field"><span class="name">Most risk</span><span class="box"><${Box} type="number" min="0" max="100" value=${risk} onSet=${(/** @type {string} */ text) => this.setState({ risk: Number(text), patch: null })} /> %</span></label>
        <label class="check"><input type="checkbox" checked=${growth} onChange=${() => this.setState({ growth: !growth, patch: null })} /> What needs more too</label>
        <label class="check"><input type="checkbox" checked=${durability} onChange=${() => this.setState({ durability: !durability, patch: null })} /> What makes the data less sure too</label>
        <button type="button" disabled=${!inventories.length} onClick=${() => this.write()}>Write the script</button></div></div>
      ${refusal && html`<${Refused} refusal=${refusal} />`}
      ${patch && html`<ul>${patch.lines.map((/** @type {string} */ line) => html`<li>${line}</li>`)}</ul>
        ${patch.scripts.map((/** @type {any} */ script) => html`<h2>patch.sh${script.account ? ` of account ${script.account}` : ""}</h2><p>Read it, run it with --dry-run, then run it. The page runs nothing.</p><div class="script"><${Code} lines=${script.patch.split("\n")} label="Copy patch.sh" /></div>
          <details><summary>rollback.sh</summary><div class="script"><${Code} lines=${script.rollback.split("\n")} label="Copy rollback.sh" /></div></details>`)}
        ${patch.whole ? html`<p>The same on the command line:</p>` : html`<p>This is of what was chosen. The command line writes it for all that its options let through:</p>`}<${Code} lines=${patch.commands} />`}</section>`;
  }
}

/** @param {Record<string, any[]>} columns */
function columnsOf(columns) {
  const money = (/** @type {string} */ name) => (/** @type {number} */ row) => columns[name][row] === null ? "" : usd(columns[name][row]);
  return [
    { name: "key", title: "volume", wide: true, cell: (/** @type {number} */ row) => columns.name[row] ? `${columns.name[row]}, ${columns.key[row]}` : columns.key[row] },
    { name: "verdict", title: "answer", cell: (/** @type {number} */ row) => columns.verdict[row] },
    { name: "today", title: "today", cell: (/** @type {number} */ row) => columns.today[row] },
    { name: "proposed", title: "proposed", cell: (/** @type {number} */ row) => columns.proposed[row] },
    { name: "usd_today", title: "USD/month", number: true, cell: money("usd_today") },
    { name: "saves_usd", title: "saves", number: true, cell: (/** @type {number} */ row) => columns.saves_usd[row] ? usd(columns.saves_usd[row]) : "" },
    { name: "risk", title: "risk", number: true, cell: (/** @type {number} */ row) => columns.risk[row] === null ? "" : `${figure(100 * columns.risk[row])} %` },
    { name: "proposed_p99_ms", title: "I/O p99, then", number: true, cell: (/** @type {number} */ row) => columns.proposed_p99_ms[row] === null ? "" : latency(columns.proposed_p99_ms[row]) },
  ];
}

/** @param {string[]} verdicts */
function countsOf(verdicts) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const verdict of verdicts) counts[verdict] = (counts[verdict] ?? 0) + 1;
  return counts;
}

const HEIGHT = 260, EDGE = { left: 60, right: 18, top: 14, bottom: 40 };

const DOT_PX = 4.5, NEAR_PX = 10;

/** Savings against risk. The dots are two lines of a drawing, and not an element each: a thousand elements would take a browser
 * longer than all else that a filter changes.
 * @extends {SizedChart<{rows: number[], columns: Record<string, any[]>, savings: import("./rows.js").Ranks, chosen: Set<number>, onChoose: (row: number) => void}>} */
class Dots extends SizedChart {
  constructor(/** @type {any} */ props) {
    super(props);
    this.state = { ...this.state, near: null };
    /** @type {{row: number, across: number, up: number}[]} */
    this.dots = [];
  }

  shouldComponentUpdate(/** @type {any} */ next, /** @type {any} */ state) { return next.rows !== this.props.rows || next.chosen !== this.props.chosen || state.width !== this.state.width || state.near !== this.state.near; }

  /** Where each dot is, px. */
  places() {
    const { rows, columns, savings } = this.props, { width } = this.state;
    const rated = rows.filter(row => columns.verdict[row] === "change" && columns.risk[row] !== null);
    const drawn = sorted(rated, savings, true).slice(0, MOST_DOTS);
    const x = scale([0, 100], EDGE.left, width - EDGE.right, false, true, true), y = scale(drawn.length ? drawn.map(row => columns.saves_usd[row]) : [1], HEIGHT - EDGE.bottom, EDGE.top, false, true);
    return { x, y, rated: rated.length, dots: drawn.map(row => ({ row, across: x.at(100 * columns.risk[row]), up: y.at(columns.saves_usd[row]) })) };
  }

  /** The dot under a pointer, or beside it. @param {any} event */
  nearest({ currentTarget, clientX, clientY }) {
    const box = currentTarget.getBoundingClientRect(), far = (/** @type {{across: number, up: number}} */ { across, up }) => Math.hypot(across * box.width / this.state.width - (clientX - box.left), up * box.height / HEIGHT - (clientY - box.top));
    const [first, ...others] = this.dots;
    const dot = first && others.reduce((best, other) => far(other) < far(best) ? other : best, first);
    return dot && far(dot) <= NEAR_PX ? dot.row : null;
  }

  render() {
    const { columns, chosen, onChoose } = this.props, { width, near } = this.state, { x, y, rated, dots } = this.places();
    this.dots = dots;
    const cut = rated > MOST_DOTS ? `; the ${MOST_DOTS.toLocaleString("en")} largest of ${rated.toLocaleString("en")}` : "";
    const path = (/** @type {boolean} */ picked) => dots.filter(({ row }) => chosen.has(row) === picked).map(({ across, up }) => `M${(across - DOT_PX).toFixed(1)},${up.toFixed(1)}a${DOT_PX},${DOT_PX} 0 1 0 ${2 * DOT_PX},0a${DOT_PX},${DOT_PX} 0 1 0 ${-2 * DOT_PX},0`).join("");
    return html`<figure class="frontier dots" ref=${(/** @type {any} */ box) => { this.box = box; }}><figcaption><strong>Savings against risk</strong> <span class="unit">USD a month; risk: fortnights that miss the goal; simulated${cut}</span></figcaption>
      ${dots.length === 0 ? html`<p class="near">Nothing of what is shown can be changed.</p>` : html`<svg viewBox=${`0 0 ${width} ${HEIGHT}`} height=${HEIGHT} role="img" aria-label=${`${dots.length} devices by risk and savings; the table below has their figures.`}
          onMouseMove=${(/** @type {any} */ event) => this.setState({ near: this.nearest(event) })} onMouseLeave=${() => this.setState({ near: null })} onClick=${(/** @type {any} */ event) => { const row = this.nearest(event); if (row !== null) onChoose(row); }}>
        ${y.ticks.map(tick => html`<line class="grid" x1=${EDGE.left} x2=${width - EDGE.right} y1=${y.at(tick)} y2=${y.at(tick)} /><text class="tick" x=${EDGE.left - 8} y=${y.at(tick) + 4} text-anchor="end">${short(tick)}</text>`)}
        ${x.ticks.map(tick => html`<text class="tick" x=${x.at(tick)} y=${HEIGHT - EDGE.bottom + 18} text-anchor="middle">${tick} %</text>`)}
        <text class="tick" x=${width - EDGE.right} y=${HEIGHT - 4} text-anchor="end">risk</text>
        <path d=${path(false)} /><path class="chosen" d=${path(true)} /></svg>
        <p class="near" aria-hidden="true">${near === null ? "Point at a device; a click chooses it." : `${columns.name[near] || columns.key[near]}: ${usd(columns.saves_usd[near])} USD a month, risk ${figure(100 * columns.risk[near])} %`}</p>`}</figure>`;
  }
}
