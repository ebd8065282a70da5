// @ts-check
// A chart of a study as SVG: published, simulated and measured in their three colours.
import { html } from "./html.js";
import { SizedChart } from "./sized.js";
import { short } from "./lines.js";
import { scale } from "./scales.js";

const HEIGHT = 260, EDGE = { left: 64, right: 16, top: 12, bottom: 40 };
const DASHES = ["", "7 4", "2 3", "10 4 2 4"]; // lines of one colour are told apart by these

/** @typedef {{label: string, role: string, x: any[], y: any[]}} Series */

/** @extends {SizedChart<{chart: {title: string, kind: string, x_title: string, y_title: string, series: Series[]}}>} */
export class Points extends SizedChart {
  render() {
    const { chart } = this.props, { width } = this.state, number = (/** @type {any} */ value) => typeof value === "number" && Number.isFinite(value);
    const names = [...new Set(chart.series.flatMap(series => series.x.map(String)))];
    const words = !chart.series.every(series => series.x.every(number)), bars = chart.kind === "bar";
    const xs = words || bars ? names.map((_, index) => index) : chart.series.flatMap(series => series.x);
    const place = (/** @type {any} */ x) => words || bars ? names.indexOf(String(x)) : x;
    const ys = chart.series.flatMap(series => series.y).filter(number);
    if (!ys.length) return null;
    const wide = (/** @type {number[]} */ values) => Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 40;
    const margin = bars ? 0.5 : words ? 0.2 : 0;
    const x = scale([Math.min(...xs) - margin, Math.max(...xs) + margin], EDGE.left, width - EDGE.right, !words && !bars && wide(xs), false, true);
    const y = scale(ys, HEIGHT - EDGE.bottom, EDGE.top, !bars && chart.kind !== "ridge" && wide(ys), Math.min(...ys) >= 0);
    const dash = (/** @type {Series} */ series) => DASHES[chart.series.filter(other => other.role === series.role).indexOf(series) % DASHES.length];
    const every = Math.ceil(names.length / (width / 90));
    const ticks = words || bars ? names.map((name, index) => [index, name]).filter((_, index) => index % every === 0) : x.ticks.map(tick => [tick, short(tick)]);
    return html`<figure class="points" ref=${(/** @type {any} */ box) => { this.box = box; }}><figcaption><strong>${chart.title}</strong> <span class="unit">${chart.y_title}</span>
      <span class="legend">${chart.series.map(series => html`<span><svg width="26" height="8" aria-hidden="true"><line class=${series.role} x1="0" x2="26" y1="4" y2="4" stroke-dasharray=${bars ? "" : dash(series)} /></svg>${series.label}${series.label.includes(series.role) ? "" : `, ${series.role}`}</span>`)}</span></figcaption>
      <svg viewBox=${`0 0 ${width} ${HEIGHT}`} height=${HEIGHT} role="img" aria-label=${`${chart.title}: ${chart.y_title} over ${chart.x_title}; the tables below have the figures.`}>
        ${y.ticks.map(tick => html`<line class="grid" x1=${EDGE.left} x2=${width - EDGE.right} y1=${y.at(tick)} y2=${y.at(tick)} /><text class="tick" x=${EDGE.left - 8} y=${y.at(tick) + 4} text-anchor="end">${short(tick)}</text>`)}
        ${ticks.map(([at, words]) => html`<text class="tick" x=${x.at(Number(at))} y=${HEIGHT - EDGE.bottom + 18} text-anchor="middle">${words}</text>`)}
        <text class="tick" x=${width - EDGE.right} y=${HEIGHT - 4} text-anchor="end">${chart.x_title}</text>
        ${chart.series.map((series, index) => bars ? drawBars(series, index, chart.series.length, place, x, y) : drawLine(series, chart.kind, dash(series), place, x, y))}</svg></figure>`;
  }
}

/** @param {Series} series @param {string} kind @param {string} dash @param {(x: any) => number} place @param {any} x @param {any} y */
function drawLine(series, kind, dash, place, x, y) {
  const points = series.x.map((value, index) => [place(value), series.y[index]]).filter(([, value]) => typeof value === "number" && Number.isFinite(value)).map(([across, value]) => [x.at(across), y.at(value)]);
  const dots = points.length <= 24, line = kind !== "scatter" && !(kind === "curves" && series.role === "published");
  return html`<g class=${series.role}>${line && html`<polyline points=${points.map(point => point.join(",")).join(" ")} stroke-dasharray=${dash} />`}
    ${(dots || !line) && points.map(([across, up]) => html`<circle cx=${across} cy=${up} r="3.5" />`)}</g>`;
}

const BAR_PX = 64; // the widest bar: few of them need not fill the chart

/** @param {Series} series @param {number} index @param {number} count @param {(x: any) => number} place @param {any} x @param {any} y */
function drawBars(series, index, count, place, x, y) {
  const unit = x.at(1) - x.at(0), wide = Math.min(BAR_PX, 0.8 / count * unit), base = y.at(0);
  return html`<g class=${`${series.role} bars`}>${series.x.map((value, at) => { const from = x.at(place(value)) + (index - count / 2) * wide, top = y.at(series.y[at] ?? 0);
    return html`<rect x=${from} width=${Math.max(1, 0.9 * wide)} y=${Math.min(top, base)} height=${Math.abs(base - top)} />`; })}</g>`;
}
