// @ts-check
// Lines over time on a canvas (uPlot), with their names and values above, and the limits drawn in.
import uPlot from "./vendor/uPlot.esm.js";
import { Component, html } from "./html.js";
import { figure } from "./figures.js";

/** @typedef {{name: string, values: (number | null)[], colour: string, filled?: boolean, dashed?: boolean}} Line */
/** @typedef {{name: string, value: number, colour: string}} Limit */

const EDGE_PX = 26; // right of the last time, half of whose letters stand there

const dark = matchMedia("(prefers-color-scheme: dark)");
/** Colours by their names in the stylesheet, asked once: each question makes the browser work out its styles. @type {Map<string, string>} */
const colours = new Map();
dark.addEventListener("change", () => colours.clear());

/** The colour behind a name of the stylesheet. @param {string} name */
function colour(name) {
  let value = colours.get(name);
  if (value === undefined) colours.set(name, value = getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return value;
}

/** One panel. `times`: s; `clock`: whether they are times of a day.
 * @extends {Component<{title: string, unit: string, times: number[], lines: Line[], limits?: Limit[], marks?: boolean[], log?: boolean, height?: number, clock?: boolean, sync: string, most?: number, described: string}>} */
export class Panel extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    this.state = { at: null };
    this.box = null; this.plot = null;
    this.redraw = () => this.draw();
  }

  componentDidMount() {
    this.draw();
    this.watcher = new ResizeObserver(() => this.plot && this.box && this.plot.setSize({ width: this.box.clientWidth, height: this.props.height ?? 170 }));
    this.watcher.observe(this.box);
    dark.addEventListener("change", this.redraw);
  }

  componentDidUpdate(/** @type {any} */ before) {
    const now = this.props;
    if (before.lines === now.lines && before.times === now.times) return;
    const same = this.plot && before.times.length === now.times.length && key(before) === key(now);
    if (same) this.plot?.setData(this.data()); else this.draw();
  }

  componentWillUnmount() { this.watcher?.disconnect(); dark.removeEventListener("change", this.redraw); this.plot?.destroy(); }

  data() {
    const floor = this.props.log ? 1e-3 : 0;
    return [this.props.times, ...this.props.lines.map(line => line.values.map(value => value === null || !Number.isFinite(value) ? null : Math.max(value, floor)))];
  }

  draw() {
    this.plot?.destroy();
    if (!this.box) return;
    const { lines, limits = [], log, clock, sync, most, height = 170, times } = this.props;
    const quiet = colour("--quiet"), line = colour("--line");
    const axis = { stroke: quiet, font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const tops = limits.map(limit => limit.value);
    this.plot = new uPlot({
      width: this.box.clientWidth, height, legend: { show: false }, padding: [12, EDGE_PX, 0, 0],
      cursor: { sync: { key: sync }, points: { size: 7 }, drag: { x: true, y: false } },
      scales: {
        x: { time: false, range: () => [times[0] ?? 0, times[times.length - 1] ?? 1] },
        y: log ? { distr: 3 } : { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ max) => [0, most ?? 1.08 * Math.max(max || 0, ...tops, 1e-9)] },
      },
      axes: [
        { ...axis, size: 28, space: 64, incrs: [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400], values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(tick => clockOf(tick, !!clock)) },
        { ...axis, size: 52, filter: log ? powers : undefined, grid: log ? { ...axis.grid, filter: powers } : axis.grid, values: (/** @type {any} */ _, /** @type {(number | null)[]} */ ticks) => ticks.map(short) },
      ],
      series: [{}, ...lines.map(series => ({ label: series.name, stroke: colour(series.colour), width: 1.75, dash: series.dashed ? [6, 4] : undefined, fill: series.filled ? `${colour(series.colour)}22` : undefined, points: { show: false } }))],
      hooks: {
        setCursor: [(/** @type {any} */ plot) => { if (plot.cursor.idx !== this.state.at) this.setState({ at: plot.cursor.idx }); }],
        drawClear: [(/** @type {any} */ plot) => drawMarks(plot, this.props.times, this.props.marks ?? [])],
        draw: [(/** @type {any} */ plot) => limits.forEach(limit => drawLimit(plot, limit))],
      },
    }, this.data(), this.box);
  }

  render() {
    const { title, unit, lines, limits = [], times, clock, described } = this.props;
    const { at } = this.state;
    return html`<figure class="panel"><figcaption><strong>${title}</strong> <span class="unit">${unit}${at !== null && at !== undefined ? `, ${clockOf(times[at], !!clock)}` : ""}</span>
      <span class="legend">${lines.map(line => html`<span key=${line.name}><i class=${`key ${line.dashed ? "dashed" : ""} ${line.colour.slice(2)}`}></i>${line.name}${at !== null && at !== undefined ? html` <b>${figure(line.values[at])}</b>` : ""}</span>`)}
      ${limits.map(limit => html`<span key=${limit.name}><i class=${`key dashed ${limit.colour.slice(2)}`}></i>${limit.name} <b>${figure(limit.value)}</b></span>`)}</span></figcaption>
      <div class="plot" role="img" aria-label=${described} ref=${(/** @type {any} */ box) => { this.box = box; }}></div></figure>`;
  }
}

/** What makes a panel another drawing, and not other data in the same. @param {any} props */
const key = props => JSON.stringify([props.lines.map((/** @type {Line} */ line) => [line.name, line.colour]), props.limits, props.clock, props.times[0]]);

/** The powers of ten among ticks. @param {any} _ @param {number[]} ticks */
const powers = (_, ticks) => ticks.map(tick => Number.isInteger(Math.round(1e6 * Math.log10(tick)) / 1e6) ? tick : null);

/** Shades the times that are marked. @param {any} plot @param {number[]} times @param {boolean[]} marks */
function drawMarks(plot, times, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = `${colour("--warn")}26`;
  for (let from = marks.indexOf(true); from >= 0;) {
    let to = from;
    while (marks[to]) to++;
    const left = plot.valToPos(times[from], "x", true), right = plot.valToPos(times[Math.min(to, times.length - 1)], "x", true);
    ctx.fillRect(left, bbox.top, Math.max(right - left, devicePixelRatio), bbox.height);
    from = marks.indexOf(true, to);
  }
  ctx.restore();
}

/** @param {any} plot @param {Limit} limit */
function drawLimit(plot, limit) {
  const y = Math.round(plot.valToPos(limit.value, "y", true)) + 0.5, { ctx, bbox } = plot;
  if (y < bbox.top || y > bbox.top + bbox.height) return;
  ctx.save();
  ctx.strokeStyle = colour(limit.colour); ctx.lineWidth = devicePixelRatio * 1.25; ctx.setLineDash([7 * devicePixelRatio, 5 * devicePixelRatio]);
  ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
  ctx.restore();
}

/** 10:40, 10:40:05, 24:00; without a clock 40 min, 5 s. @param {number} seconds @param {boolean} clock */
function clockOf(seconds, clock) {
  const whole = Math.round(seconds), two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  if (clock) return `${two(Math.floor(whole / 3600) % 24 || (whole && whole % 86400 === 0 ? 24 : 0))}:${two(Math.floor(whole / 60) % 60)}${whole % 60 ? `:${two(whole % 60)}` : ""}`;
  return whole % 60 === 0 ? `${whole / 60} min` : `${whole} s`;
}

/** @param {number | null} value */
export function short(value) {
  if (value === null || value === undefined) return "";
  if (Math.abs(value) >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  return Math.abs(value) >= 1e3 ? `${+(value / 1e3).toPrecision(3)}k` : `${+value.toPrecision(3)}`;
}
