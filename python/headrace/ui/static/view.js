// @ts-check
// Draws a view of the package: title, cards, blocks. It knows no results.
import { Component, html } from "./html.js";

/** @typedef {{title: string, subtitle: string, cards: any[], blocks: any[]}} View */

// The blank between a number and its unit, where a line must not be broken: a pattern of the server's (report/words.py).
let unit = /(?!)/g;
export const setUnits = (/** @type {string} */ pattern) => { unit = new RegExp(pattern, "g"); };
const glued = (/** @type {string} */ text) => text.replace(unit, "\u00a0");
// The longest word that holds together at its hyphens (report/html.py), letters.
const WHOLE = 28;

/** A text in which a figure and its unit, and a name or date with hyphens, stay on one line. @param {string} words */
export const whole = words => glued(words).split(" ").flatMap((word, at) => [at ? " " : "", word.includes("-") && word.length <= WHOLE ? html`<span class="whole">${word}</span>` : word]);

/** @param {{words: string}} props */
export const Title = ({ words }) => html`<h1>${whole(words)}</h1>`;

/** @type {WeakMap<View, {warnings: any[], rest: any[]}>} */
const parts = new WeakMap();

/** The warnings that a view begins with, which stand by the answer, and what follows; the same ones for the same view. @param {View} view */
export function partsOf(view) {
  let divided = parts.get(view);
  if (!divided) {
    const end = view.blocks.findIndex(block => block.block !== "Sentence" || !block.mark), count = end < 0 ? view.blocks.length : end;
    parts.set(view, divided = { warnings: view.blocks.slice(0, count), rest: view.blocks.slice(count) });
  }
  return divided;
}

/** @param {{cards: any[]}} props */
export const Cards = ({ cards }) => cards.length ? html`<ul class="cards">${cards.map(card => html`
  <li class=${card.mark} key=${card.label}><p class="label">${card.label}</p><p class="figure">${figure(card.figure)}</p>
  <p class="meaning">${card.meaning}</p></li>`)}</ul>` : null;

/** A text whose figures stand in braces, with those figures. @param {string} text @param {Record<string, string>} figures */
const put = (text, figures) => text.replace(/\{(\w+)\}/g, (_, name) => figures[name] ?? "-");

/** Headline and cards whose texts name figures in braces, with those figures.
 * @param {string} title @param {any[]} cards @param {Record<string, string>} figures @param {string} mark */
export const filled = (title, cards, figures, mark = "") => ({
  title: put(title, figures), cards: cards.map(card => ({ label: card.label, figure: put(card.figure, figures), meaning: glued(put(card.meaning, figures)), mark })),
});

/** Sets the first word of a figure large and its unit small; words alone are less large.
 * @param {string} words */
function figure(words) {
  const at = words.indexOf(" ");
  if (!/\d/.test(words)) return html`<span class="words">${words}</span>`;
  return at < 0 || /\d/.test(words.slice(at)) || !/\d/.test(words.slice(0, at)) ? words : html`${words.slice(0, at)}\u00a0<small>${words.slice(at + 1)}</small>`;
}

/** Blocks of an answer; drawn again for another answer alone, and not with each move of a slider.
 * @extends {Component<{blocks: any[]}>} */
export class Blocks extends Component {
  shouldComponentUpdate(/** @type {any} */ next) { return next.blocks !== this.props.blocks; }
  render() { return this.props.blocks.map(block => html`<${Block} block=${block} />`); }
}

/** @param {{block: any}} props @returns {any} */
function Block({ block }) {
  switch (block.block) {
    case "Sentence": return html`<p class=${block.mark}>${block.text}</p>`;
    case "Heading": return html`<h2>${block.text}</h2>`;
    case "Items": return html`<ul>${block.lines.map((/** @type {string} */ line) => html`<li class=${line.startsWith("WARNING: ") ? "warn" : ""}>${line}</li>`)}</ul>`;
    case "Code": return stepsOf(block.lines)?.map(step => html`<p class="step">${step.title}</p>${step.lines.length > 0 && html`<${Code} lines=${step.lines} />`}`) ?? html`<${Code} lines=${block.lines} />`;
    case "Table": return html`<${Table} table=${block} />`;
    case "Fold": return html`<details><summary>${block.title}${block.count > 1 ? html` <span class="count">(${block.count})</span>` : ""}</summary>
      <${Blocks} blocks=${block.blocks} /></details>`;
    default: return null;
  }
}

/** What is to be done as sentences, each with the lines that do it; null of lines that are no such list. @param {string[]} lines */
function stepsOf(lines) {
  const titles = lines.filter(line => !line.startsWith(" "));
  if (!titles.length || titles.length === lines.length || !titles.every(line => line.endsWith(":"))) return null;
  /** @type {{title: string, lines: string[]}[]} */
  const steps = [];
  for (const line of lines) {
    if (line.startsWith(" ")) steps[steps.length - 1]?.lines.push(line.replace(/^ {1,4}/, "")); else steps.push({ title: line, lines: [] });
  }
  return steps;
}

/** Lines to copy. @param {{lines: string[], label?: string}} props */
export function Code({ lines, label = "Copy" }) {
  const text = lines.join("\n");
  return html`<div class="copy"><pre tabindex="0">${text}</pre>
    <button type="button" onClick=${(/** @type {any} */ event) => copied(event.currentTarget, text)}>${label}</button></div>`;
}

/** @param {HTMLButtonElement} button @param {string} text */
async function copied(button, text) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
  catch { button.textContent = "Select and copy"; }
  setTimeout(() => { button.textContent = before; }, 1500);
}

const CLASSES = { number: "right", prose: "wide", key: "whole", "": "" };

/** A table with its brief columns; all of them behind a fold. @param {{table: any}} props */
function Table({ table }) {
  const brief = table.columns.map((/** @type {any} */ column, /** @type {number} */ index) => column.brief ? index : -1).filter((/** @type {number} */ index) => index >= 0);
  const every = table.columns.map((/** @type {any} */ _, /** @type {number} */ index) => index);
  if (!brief.length || brief.length === every.length) return html`<${Grid} table=${table} indices=${every} />`;
  return html`<${Grid} table=${table} indices=${brief} /><details><summary>All ${every.length} columns</summary><${Grid} table=${table} indices=${every} /></details>`;
}

// Rows that are drawn at first: more are nobody's first look, and cost a slow machine its patience.
const FIRST_ROWS = 100;

/** @extends {Component<{table: any, indices: number[]}>} */
class Grid extends Component {
  constructor(/** @type {any} */ props) { super(props); this.state = { every: false }; }
  render() {
    const { table, indices } = this.props, every = this.state.every || table.rows.length <= FIRST_ROWS;
    return html`<${Rows} table=${every ? table : { ...table, rows: table.rows.slice(0, FIRST_ROWS) }} indices=${indices} />
      ${!every && html`<button type="button" onClick=${() => this.setState({ every: true })}>Show all ${table.rows.length.toLocaleString("en")} rows</button>`}`;
  }
}

// A table whose columns need no more letters stays a table on a phone, as in a report (report/html.py).
const PHONE_LETTERS = 46, MOST_ON_PHONE = 5;

/** Whether a table has few short columns. @param {any} table @param {number[]} indices */
function isSmall(table, indices) {
  const longest = (/** @type {number} */ index) => Math.max(...[table.columns[index].title, ...table.rows.map((/** @type {any[]} */ row) => String(row[index] ?? ""))]
    .map(cell => table.columns[index].kind === "number" ? cell.length : Math.max(...cell.split(/\s+/).map((/** @type {string} */ word) => word.length))));
  return table.rows.length > 0 && indices.length <= MOST_ON_PHONE && indices.reduce((sum, index) => sum + longest(index) + 2, 0) <= PHONE_LETTERS;
}

/** @param {{table: any, indices: number[]}} props */
export function Rows({ table, indices }) {
  const mark = (/** @type {number} */ index) => CLASSES[/** @type {""} */ (table.columns[index].kind)];
  return html`<div class=${isSmall(table, indices) ? "scroll small" : "scroll"} tabindex="0"><table>${table.title && html`<caption>${table.title}</caption>`}
    <thead><tr>${indices.map(index => html`<th scope="col" class=${mark(index)}>${table.columns[index].title}</th>`)}</tr></thead>
    <tbody>${table.rows.map((/** @type {any[]} */ row, /** @type {number} */ at) => html`<tr class=${at === table.marked ? "marked" : table.failing?.includes(at) ? "failing" : ""}>${indices.map(index =>
      html`<td class=${mark(index)} data-title=${table.columns[index].title}>${row[index] ?? ""}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** An error as the command line says it; one of a script is a bug, and is named. @param {{refusal: any}} props */
export const Refused = ({ refusal }) => refusal instanceof Error ? html`<div class="refused" role="alert"><strong>this view</strong>: is a bug in headrace: ${String(refusal)}.</div>` : html`<div class="refused" role="alert"><strong>${refusal.value}</strong>: ${refusal.rule}${refusal.source ? ` (${refusal.source})` : ""}.
  ${refusal.hint && html`<p>${refusal.hint}</p>`}</div>`;
