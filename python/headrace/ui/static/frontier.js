// @ts-check
// Cost against what is delivered, as SVG: filled meets every goal, hollow misses one.
import { html } from "./html.js";
import { SizedChart } from "./sized.js";
import { short } from "./lines.js";
import { NEVER_MS, figure, latency } from "./figures.js";
import { scale } from "./scales.js";

/** @typedef {{storage: string, instance: string | null, log_storage: string | null, family: string, cost_usd_month: number, meets_goals: boolean,
 *   p99_ms?: number, tps?: number, tps_low?: number, tps_high?: number}} Point */

const HEIGHT = 340, EDGE = { left: 60, right: 18, top: 20, bottom: 44 };

/** @extends {SizedChart<{points: Point[], subject: string, best: any, today: any, goal: number | null, onPick: ((point: Point) => void) | null}>} */
export class Frontier extends SizedChart {
  constructor(/** @type {any} */ props) {
    super(props);
    this.state = { ...this.state, near: null };
    /** The points as the arrows go through them. @type {any[]} */
    this.order = [];
  }

  // A slider that moves the day alone leaves the candidates as they are.
  shouldComponentUpdate(/** @type {any} */ next, /** @type {any} */ state) {
    const { points, best, today, goal } = this.props;
    return next.points !== points || next.best !== best || next.today !== today || next.goal !== goal || state.width !== this.state.width || state.near !== this.state.near;
  }

  render() {
    const { points, subject, best, today, goal, onPick } = this.props;
    const { width } = this.state, demand = subject === "demand";
    const measure = (/** @type {any} */ point) => demand ? Math.min(point.p99_ms ?? NEVER_MS, NEVER_MS) : point.tps;
    const extra = [best, today].filter(Boolean).map(choice => ({ ...choice, ...choice.metrics }));
    const all = [...points, ...extra].filter(point => Number.isFinite(point.cost_usd_month) && point.cost_usd_month > 0 && Number.isFinite(measure(point)));
    if (!all.length) return html`<p>No candidate has a price and a figure to draw.</p>`;
    const x = scale(all.map(point => point.cost_usd_month), EDGE.left, width - EDGE.right, true);
    // The quickest stand above the axis, and not on it.
    const room = demand ? [Math.min(...all.map(measure)) / 2] : [];
    const y = scale([...all.map(measure), ...room, ...(goal ? [goal] : [])], HEIGHT - EDGE.bottom, EDGE.top, demand, !demand);
    const is = (/** @type {any} */ point, /** @type {any} */ choice) => choice && same(point, choice);
    const marked = [best && { choice: best, words: best.meets_goals ? "recommended" : "closest", kind: "good" }, today && !(best && same(best, today)) && { choice: today, words: "today", kind: "warn" }].filter(Boolean);
    /** @type {any} */
    const about = this.state.near;
    this.order = all.filter((point, nth) => all.findIndex(other => same(other, point)) === nth).sort((a, b) => a.cost_usd_month - b.cost_usd_month);
    const words = about ? wordsOf(about, demand) : "none yet";
    const unit = demand ? "I/O p99 of the worst five minutes" : "transactions a second, 80 % interval";
    return html`<figure class="frontier" ref=${(/** @type {any} */ box) => { this.box = box; }}>
      <figcaption><strong>Cost against ${demand ? "latency" : "transactions"}</strong> <span class="unit">${unit}; filled: meets every goal; simulated</span></figcaption>
      <div role="slider" tabindex="0" aria-label=${`${all.length} storages by monthly cost and ${unit}; arrows go from one to the next${onPick ? ", Enter tries it" : ""}. The table below has the best of them.`} aria-valuemin="0" aria-valuemax=${all.length} aria-valuenow=${this.nearest() + 1} aria-valuetext=${words}
        onKeyDown=${(/** @type {any} */ event) => this.press(event)}><svg viewBox=${`0 0 ${width} ${HEIGHT}`} height=${HEIGHT} aria-hidden="true" onMouseLeave=${() => this.setState({ near: null })}>
        ${x.ticks.map(tick => html`<text class="tick" x=${x.at(tick)} y=${HEIGHT - EDGE.bottom + 18} text-anchor="middle">${short(tick)}</text>`)}
        ${y.ticks.map(tick => html`<line class="grid" x1=${EDGE.left} x2=${width - EDGE.right} y1=${y.at(tick)} y2=${y.at(tick)} /><text class="tick" x=${EDGE.left - 8} y=${y.at(tick) + 4} text-anchor="end">${demand ? latency(tick) : short(tick)}</text>`)}
        <text class="tick" x=${width - EDGE.right} y=${HEIGHT - 6} text-anchor="end">USD a month</text>
        ${goal && html`<line class="goal" x1=${EDGE.left} x2=${width - EDGE.right} y1=${y.at(goal)} y2=${y.at(goal)} /><text class="tick" x=${width - EDGE.right} y=${y.at(goal) - 5} text-anchor="end">goal: ${demand ? latency(goal) : `${figure(goal)} tps`}</text>`}
        ${all.map(point => html`<g class=${`point ${point.meets_goals ? "meets" : "misses"} ${is(point, about) ? "near" : ""}`} onMouseEnter=${() => this.setState({ near: point })} onClick=${() => onPick?.(point)}>
          ${!demand && point.tps_low !== null && point.tps_low !== undefined && point.meets_goals && html`<line x1=${x.at(point.cost_usd_month)} x2=${x.at(point.cost_usd_month)} y1=${y.at(point.tps_low)} y2=${y.at(point.tps_high)} />`}
          <circle class="catch" cx=${x.at(point.cost_usd_month)} cy=${y.at(measure(point))} r="11" /><circle cx=${x.at(point.cost_usd_month)} cy=${y.at(measure(point))} r=${is(point, best) || is(point, today) ? 7 : 4.5} class=${is(point, best) ? "good" : is(point, today) ? "warn" : ""} /></g>`)}
        ${marked.map((/** @type {any} */ { choice, words, kind }) => { const across = x.at(choice.cost_usd_month), end = across > width - 130;
          return html`<text class=${`mark ${kind}`} x=${across + (end ? -12 : 12)} y=${y.at(measure({ ...choice, ...choice.metrics })) - 9} text-anchor=${end ? "end" : "start"}>${words}</text>`; })}
      </svg></div>
      <p class="near" aria-hidden="true">${about ? words : !onPick ? "Point at a storage." : demand ? "Point at a storage; a click draws its day." : "Point at a storage; a click runs it in the Database view."}</p></figure>`;
  }

  /** The place of the point that is near, -1 of none. */
  nearest() {
    const { near } = this.state;
    return near ? this.order.findIndex(point => same(point, near)) : -1;
  }

  /** Arrows go from the cheapest to the dearest; Enter and space are a click. @param {KeyboardEvent} event */
  press(event) {
    const at = this.nearest(), last = this.order.length - 1;
    /** @type {Record<string, number>} */
    const places = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at < 0 ? last : at - 1, ArrowDown: at < 0 ? last : at - 1, Home: 0, End: last };
    if (event.key in places) this.setState({ near: this.order[Math.max(0, Math.min(last, places[event.key]))] });
    else if ((event.key === "Enter" || event.key === " ") && at >= 0) this.props.onPick?.(this.order[at]);
    else return;
    event.preventDefault();
  }
}

/** A storage with its cost, its figure, and whether it meets the goals. @param {any} point @param {boolean} demand */
const wordsOf = (point, demand) => `${place(point)}: ${figure(point.cost_usd_month)} USD a month, ${demand ? `I/O p99 ${point.p99_ms === null ? "a minute or more" : latency(point.p99_ms)}` : `${figure(point.tps)} tps`}${point.meets_goals ? ", meets every goal" : ", misses a goal"}`;

/** @param {any} a @param {any} b */
const same = (a, b) => a.storage === b.storage && (a.instance ?? null) === (b.instance ?? null) && (a.log_storage ?? null) === (b.log_storage ?? null);

/** @param {any} point */
const place = point => `${point.instance ? `${point.instance} with ` : ""}${point.storage}${point.log_storage ? `, log on ${point.log_storage}` : ""}`;
