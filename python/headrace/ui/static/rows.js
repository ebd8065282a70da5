// @ts-check
// A table of any number of rows, of which those in sight alone are drawn. Reached by keyboard: arrows move, space chooses.
import { Component, html } from "./html.js";

const ROW_PX = 34, SIGHT_PX = 480, SPARE = 6; // as in ui.css; rows drawn above and below those in sight

/** @typedef {{name: string, title: string, number?: boolean, wide?: boolean, cell: (row: number) => string}} Column */

/** `rows`: the numbers of the rows in their order; `chosen`: those that are selected; `sort`: a column's name, with "-" in front downwards.
 * @extends {Component<{columns: Column[], rows: number[], chosen: Set<number>, sort: string, label: string, onSort: (sort: string) => void, onChoose: (row: number) => void, onActive: (row: number) => void}>} */
export class Rows extends Component {
  constructor(/** @type {any} */ props) { super(props); this.state = { top: 0, active: 0 }; this.box = null; }

  componentDidUpdate(/** @type {any} */ before) {
    if (before.rows === this.props.rows) return;
    if (!this.state.top && !this.state.active) return; // it is drawn so already
    this.box?.scrollTo(0, 0);
    this.setState({ top: 0, active: 0 });
  }

  /** Makes a row the active one and brings it into sight. @param {number} place */
  activate(place) {
    const { rows, onActive } = this.props, active = Math.max(0, Math.min(rows.length - 1, place)), box = this.box;
    if (box) {
      const top = active * ROW_PX, room = box.clientHeight - ROW_PX; // the head covers a row
      if (top < box.scrollTop) box.scrollTop = top;
      if (top + ROW_PX > box.scrollTop + room) box.scrollTop = top + ROW_PX - room;
    }
    this.setState({ active });
    onActive(rows[active]);
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const { rows, onChoose } = this.props, { active } = this.state, page = Math.floor(SIGHT_PX / ROW_PX) - 1;
    /** @type {Record<string, number>} */
    const places = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 };
    if (event.target !== this.box) return;
    if (event.key in places) this.activate(places[event.key]);
    else if (event.key === " " && rows.length) onChoose(rows[active]);
    else return;
    event.preventDefault();
  }

  render() {
    const { columns, rows, chosen, sort, label, onSort, onChoose } = this.props, { top, active } = this.state;
    const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE), last = Math.min(rows.length, Math.ceil((top + SIGHT_PX) / ROW_PX) + SPARE);
    const slots = Math.ceil(SIGHT_PX / ROW_PX) + 2 * SPARE + 1; // elements that rows take in turn: none is made anew for another order
    const direction = (/** @type {string} */ name) => sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
    return html`<div class="rows" role="grid" tabindex="0" aria-label=${label} aria-multiselectable="true" aria-rowcount=${rows.length + 1} aria-colcount=${columns.length + 1}
      aria-activedescendant=${active >= first && active < last ? `row-${rows[active]}` : undefined} ref=${(/** @type {any} */ box) => { this.box = box; }}
      onScroll=${(/** @type {any} */ event) => this.setState({ top: event.currentTarget.scrollTop })} onKeyDown=${(/** @type {any} */ event) => this.press(event)}>
      <div role="rowgroup" class="heads"><div role="row" class="row" aria-rowindex="1"><span role="columnheader" class="pick">Pick</span>${columns.map(column => html`<span role="columnheader" key=${column.name} class=${kindOf(column)} aria-sort=${direction(column.name)}>
        <button type="button" onClick=${() => onSort(direction(column.name) === "descending" ? column.name : `-${column.name}`)}>${column.title}${direction(column.name) === "ascending" ? " ↑" : direction(column.name) === "descending" ? " ↓" : ""}</button></span>`)}</div></div>
      <div role="rowgroup" class="all" style=${{ height: `${rows.length * ROW_PX}px` }}>${rows.slice(first, last).map((row, nth) => { const place = first + nth, mine = chosen.has(row);
        return html`<div role="row" id=${`row-${row}`} key=${place % slots} class=${`row ${place === active ? "active" : ""} ${mine ? "chosen" : ""}`} aria-rowindex=${place + 2} aria-selected=${mine} style=${{ top: `${place * ROW_PX}px` }}
          onClick=${() => { this.activate(place); onChoose(row); }}><span role="gridcell" class="pick">${mine ? "☑" : "☐"}</span>${columns.map(column => { const text = column.cell(row); return html`<span role="gridcell" key=${column.name} class=${kindOf(column)} title=${text}>${text}</span>`; })}</div>`; })}</div></div>`;
  }
}

/** @param {Column} column */
const kindOf = column => `${column.number ? "right" : ""} ${column.wide ? "wide" : ""}`;

/** Places of a column's values among its distinct values, -1 where one is missing: numbers by size, texts by their letters.
 * @typedef {{places: Int32Array, count: number}} Ranks */

/** Ranks a column, once for all orders of it. @param {(string | number | null)[]} values @returns {Ranks} */
export function ranksOf(values) {
  /** @type {any[]} */
  const distinct = [...new Set(values)].filter(value => value !== null);
  distinct.sort(typeof distinct[0] === "number" ? (a, b) => a - b : undefined);
  const places = new Map(distinct.map((value, place) => [value, place]));
  return { places: Int32Array.from(values, value => places.get(value) ?? -1), count: distinct.length };
}

/** The rows in the order of a column; what is missing comes last, and equals stay as they come. A counting sort: no two values are compared.
 * @param {number[]} rows @param {Ranks} ranks @param {boolean} down @returns {number[]} */
export function sorted(rows, { places, count }, down) {
  const bucket = (/** @type {number} */ row) => places[row] < 0 ? count : down ? count - 1 - places[row] : places[row];
  const starts = new Int32Array(count + 2);
  for (const row of rows) starts[bucket(row) + 1]++;
  for (let at = 1; at < starts.length; at++) starts[at] += starts[at - 1];
  const order = new Array(rows.length);
  for (const row of rows) order[starts[bucket(row)]++] = row;
  return order;
}
