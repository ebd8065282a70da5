// @ts-check
// Lines over time on a canvas (uPlot), with their names and values above, and the limits drawn in.
import uPlot from "./vendor/uPlot.esm.js";
import { Component, html } from "./html.js";
import { figure } from "./figures.js";

/** A value that is missing is null, or NaN. @typedef {{name: string, values: ArrayLike<number | null>, colour: string, filled?: boolean, dashed?: boolean}} Line */
/** @typedef {{name: string, value: number, colour: string}} Limit */

const EDGE_PX = 26; // right of the last time, half of whose letters stand there

const dark = matchMedia("(prefers-color-scheme: dark)");
/** Colours by their names in the stylesheet, asked once: each question makes the browser work out its styles. @type {Map<string, string>} */
const colours = new Map();
dark.addEventListener("change", () => colours.clear());

const LINE_PX = 2; // how wide a line is drawn, rounded: what lies within it cannot be told apart
// While a hand moves a slider, a line has the least and the greatest of every 6 px (chosen: nobody sees more in a picture that changes), and a
// panel out of sight waits. Once nothing has come for longer than there is between two movements of a hand, all is drawn as it is.
const MOVED_PX = 6, LATER_MS = 300;

/** The colour behind a name of the stylesheet. @param {string} name */
function colour(name) {
  let value = colours.get(name);
  if (value === undefined) colours.set(name, value = getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return value;
}

/** One panel. `times`: s; `clock`: whether they are times of a day.
 * @extends {Component<{title: string, unit: string, times: ArrayLike<number>, lines: Line[], limits?: Limit[], marks?: boolean[], log?: boolean, height?: number, clock?: boolean, sync: string, most?: number, described: string}>} */
export class Panel extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    this.state = { at: null };
    this.box = null; this.plot = null; this.width = 0;
    /** Of the values, those that are drawn; null: all of them. @type {Uint32Array | null} */
    this.places = null;
    /** Whether it is in sight, when data came last in ms, and the timer of the drawing that follows them. */
    this.seen = true; this.came = -Infinity; this.late = 0;
    this.redraw = () => this.draw();
  }

  componentDidMount() {
    this.draw();
    this.watcher = new ResizeObserver(() => {
      if (!this.plot || !this.box || this.width === this.box.clientWidth) return;
      this.width = this.box.clientWidth;
      this.plot.setSize({ width: this.width, height: this.props.height ?? 170 });
      this.plot.setData(this.data());
    });
    this.watcher.observe(this.box);
    this.sight = new IntersectionObserver(([entry]) => { this.seen = entry.isIntersecting; if (this.seen && this.late) this.update(LINE_PX); });
    this.sight.observe(this.box);
    dark.addEventListener("change", this.redraw);
  }

  componentDidUpdate(/** @type {any} */ before) {
    const now = this.props;
    if (before.lines === now.lines && before.times === now.times) return;
    const moved = performance.now() - this.came < LATER_MS;
    this.came = performance.now();
    if (this.seen) this.update(moved ? MOVED_PX : LINE_PX);
    clearTimeout(this.late);
    this.late = this.seen && !moved ? 0 : setTimeout(() => this.update(LINE_PX), LATER_MS);
  }

  componentWillUnmount() { clearTimeout(this.late); this.watcher?.disconnect(); this.sight?.disconnect(); dark.removeEventListener("change", this.redraw); this.plot?.destroy(); }

  /** Draws other data: in the same drawing where nothing else of it has changed. @param {number} step px that a line has its least and greatest of */
  update(step) {
    clearTimeout(this.late);
    this.late = 0;
    if (this.plot && this.drawn === key(this.props)) this.plot.setData(this.data(step)); else this.draw();
    // A stylesheet says so in the chart (ui.css): a word of the caption could move what stands beside it.
    this.box?.toggleAttribute("data-coarse", step > LINE_PX && this.places !== null);
  }

  data(step = LINE_PX) {
    const { times, lines, log } = this.props, floor = log ? 1e-3 : 0, places = this.places = placesOf(times, lines, Math.floor(this.width / step));
    const drawn = (/** @type {ArrayLike<any>} */ values) => places ? Float64Array.from(places, place => values[place] ?? NaN) : values;
    return [drawn(times), ...lines.map(line => drawable(drawn(line.values), floor))];
  }

  draw() {
    this.plot?.destroy();
    if (!this.box) return;
    const { lines, limits = [], log, clock, sync, most, height = 170 } = this.props;
    this.width = this.box.clientWidth;
    this.drawn = key(this.props);
    const quiet = colour("--quiet"), line = colour("--line");
    const axis = { stroke: quiet, font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const tops = limits.map(limit => limit.value);
    this.plot = new uPlot({
      width: this.box.clientWidth, height, legend: { show: false }, padding: [12, EDGE_PX, 0, 0],
      cursor: { sync: { key: sync }, points: { size: 7 }, drag: { x: true, y: false } },
      scales: {
        x: { time: false, range: () => { const { times } = this.props; return [times[0] ?? 0, times[times.length - 1] ?? 1]; } },
        y: log ? { distr: 3 } : { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ max) => [0, most ?? 1.08 * Math.max(max || 0, ...tops, 1e-9)] },
      },
      axes: [
        { ...axis, size: 32, gap: 9, space: 64, incrs: [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400], values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(tick => clockOf(tick, !!clock)) },
        { ...axis, size: 52, filter: log ? powers : undefined, grid: log ? { ...axis.grid, filter: powers } : axis.grid, values: (/** @type {any} */ _, /** @type {(number | null)[]} */ ticks) => ticks.map(short) },
      ],
      series: [{}, ...lines.map(series => ({ label: series.name, stroke: colour(series.colour), width: 1.75, dash: series.dashed ? [6, 4] : undefined, fill: series.filled ? `${colour(series.colour)}22` : undefined, points: { show: false } }))],
      hooks: {
        setCursor: [(/** @type {any} */ plot) => { const { idx } = plot.cursor, at = this.places?.[idx] ?? idx; if (at !== this.state.at) this.setState({ at }); }],
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

/** Which values are drawn of more than a chart can show: in each of its steps, the least and the greatest of each line, and one that is
 * missing; null: all of them. A browser without a graphics processor takes the time of all else together to draw the rest.
 * @param {ArrayLike<number>} times @param {Line[]} lines @param {number} steps */
function placesOf(times, lines, steps) {
  const count = times.length, first = times[0], span = times[count - 1] - first;
  if (!(steps > 0 && span > 0) || count <= 2 * steps * lines.length) return null;
  const marks = new Uint8Array(count);
  marks[0] = marks[count - 1] = 1;
  for (const { values } of lines) {
    let step = -1, least = -1, most = -1, missing = -1;
    for (let at = 0; at <= count; at++) {
      const now = at < count ? Math.floor((times[at] - first) / span * steps) : -1;
      if (now !== step) {
        for (const place of [least, most, missing]) if (place >= 0) marks[place] = 1;
        step = now; least = most = missing = -1;
      }
      const value = values[at];
      if (value === null || !Number.isFinite(value)) { missing = at < count ? at : -1; continue; }
      if (least < 0 || value < Number(values[least])) least = at;
      if (most < 0 || value > Number(values[most])) most = at;
    }
  }
  return Uint32Array.from(marks.keys()).filter(place => marks[place]);
}

/** Values as they are drawn: columns of the model where they lie, if all of them can be drawn. @param {ArrayLike<number | null>} values @param {number} floor the least that a scale has */
function drawable(values, floor) {
  if (values instanceof Float64Array && values.every(value => value >= floor)) return values;
  return Array.from(values, value => value === null || !Number.isFinite(value) ? null : Math.max(value, floor));
}

/** What makes a panel another drawing, and not other data in the same. @param {any} props */
const key = props => JSON.stringify([props.lines.map((/** @type {Line} */ line) => [line.name, line.colour]), props.limits, props.clock, props.times[0]]);

/** The powers of ten among ticks. @param {any} _ @param {number[]} ticks */
const powers = (_, ticks) => ticks.map(tick => Number.isInteger(Math.round(1e6 * Math.log10(tick)) / 1e6) ? tick : null);

/** Shades the times that are marked. @param {any} plot @param {ArrayLike<number>} times @param {boolean[]} marks */
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
