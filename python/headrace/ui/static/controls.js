// @ts-check
// A control for each option: what it is called, its range, unit and default come from the option alone.
import { Component, html, steady } from "./html.js";

// The part of a range that a slider covers; the box beside it takes all of it. Chosen by eye.
/** @type {Record<string, [number, number]>} */
const SLID = {
  growth: [0.25, 8], free_percent: [0, 75], max_volumes: [1, 16], months: [0, 36], threads: [1, 1024], cache_gib: [1, 512],
  discount_percent: [0, 60], size_gib: [10, 16000], seconds: [60, 14400], demand_growth: [0.25, 8], data_growth: [0.25, 8],
};
const STEPS = 1000; // of a slider: finer than a pixel

/** What a control is called: the beginning of its option's sentence. @param {any} option */
export const title = option => option.help.split(/[:;,(]|\.(?!\d)/)[0].trim();

/** What a goal is called: the beginning of what its metric means. @param {any} metric */
function nameOf(metric) {
  const words = title({ help: metric.meaning });
  return `${words[0].toUpperCase()}${words.slice(1)}`;
}

/** An input that a person types in. The text stays as typed until Enter or until the input is left, whatever is drawn meanwhile: an
 * answer that arrives would put the last value back. `onSet` gets the text.
 * @extends {Component<any>} */
export class Box extends Component {
  constructor(/** @type {any} */ props) { super(props); this.state = { typed: null }; }
  render() {
    const { value, onSet, ...attributes } = this.props, rest = () => this.setState({ typed: null });
    return html`<input ...${attributes} value=${this.state.typed ?? value} onInput=${(/** @type {any} */ event) => this.setState({ typed: event.target.value })}
      onChange=${(/** @type {any} */ event) => { rest(); onSet(event.target.value); }} onBlur=${rest} />`;
  }
}

/** A slider and a box for a number. Over more than a factor of 20 the slider is logarithmic.
 * @param {{label: string, value: number | null, usual: string, unit: string, from: number, to: number, least?: number | null, most?: number | null, whole?: boolean,
 *   help?: string, onMove: (value: number | null) => void, onRest: () => void}} props */
export function Slider({ label, value, usual, unit, from, to, least, most, whole, help, onMove, onRest }) {
  const log = from > 0 && to / from > 20;
  const at = value === null ? Number(usual.replaceAll(",", "")) || from : value;
  const place = log ? Math.log(Math.max(at, from) / from) / Math.log(to / from) : (at - from) / (to - from);
  const read = (/** @type {number} */ share) => rounded(log ? from * (to / from) ** share : from + share * (to - from), !!whole);
  const position = Math.round(Math.min(1, Math.max(0, place)) * STEPS);
  // A key moves by the smallest part of the range, which may round to where one is: then to the next value.
  const move = (/** @type {number} */ moved) => {
    const next = read(moved / STEPS);
    return next === at && moved !== position ? Math.min(to, Math.max(from, rounded(at + Math.sign(moved - position) * Math.max(stepOf(at), whole ? 1 : 0), !!whole))) : next;
  };
  const words = value === null && usual && !/^[\d,.]+$/.test(usual) ? usual : "";
  return html`<label class="slider" title=${help}><span class="name">${label}${words && html`<small>${words}</small>`}</span>
    <span class="box"><${Box} type="number" aria-label=${label} value=${value ?? ""} placeholder=${words ? "" : usual} min=${least} max=${most} step="any"
      onSet=${(/** @type {string} */ text) => { onMove(text === "" ? null : Number(text)); onRest(); }} /> ${unit}</span>
    <input type="range" aria-label=${`${label}, slider`} aria-valuetext=${`${at} ${unit}`} min="0" max=${STEPS} value=${position}
      onInput=${(/** @type {any} */ event) => onMove(move(Number(event.target.value)))} onChange=${onRest} /></label>`;
}

/** The distance to the next value that `rounded` gives. @param {number} value */
const stepOf = value => value === 0 ? 0.01 : 10 ** (Math.floor(Math.log10(Math.abs(value))) - (Math.abs(value) >= 100 ? 2 : 1));

/** Two significant digits where that is fine enough: 1.2, 37, 410. @param {number} value @param {boolean} whole */
function rounded(value, whole) {
  if (value === 0) return 0;
  const step = stepOf(value);
  const near = Math.round(value / step) * step;
  return whole ? Math.max(Math.round(near), 0) : Number(near.toPrecision(4));
}

/** The value of an option that an answer was computed with: a slider begins there. @param {any} option @param {any} answer @returns {string | null} */
export const usualOf = (option, answer) => answer?.usual?.[option.name]?.toLocaleString("en") ?? null;

/** The control of an option. `usual`: its value where none is set, if it is not the option's own. */
export const Control = steady((/** @type {{option: any, usual?: string | null, value: any, onMove: (value: any) => void, onRest: () => void}} */ { option: declared, usual, value, onMove, onRest }) => {
  const option = { ...declared, usual: usual ?? declared.usual };
  const set = (/** @type {any} */ given) => { onMove(given); onRest(); };
  const label = title(option);
  if (option.kind === "number" || option.kind === "whole") {
    const slid = SLID[option.name];
    const present = value ?? option.default;
    const parts = { label, value: present, usual: option.usual ?? "", unit: unitOf(option), least: option.least, most: option.most, whole: option.kind === "whole", help: option.help, onMove, onRest };
    return slid ? html`<${Slider} ...${parts} from=${slid[0]} to=${slid[1]} />`
      : html`<label class="field" title=${option.help}><span class="name">${label}</span><span class="box"><${Box} type="number" step="any" value=${present ?? ""} placeholder=${/^[\d,.]+$/.test(parts.usual) ? parts.usual : ""}
        min=${option.least} max=${option.most} onSet=${(/** @type {string} */ typed) => set(typed === "" ? null : Number(typed))} /> ${parts.unit}</span></label>`;
  }
  if (option.kind === "switch") return html`<label class="check" title=${option.help}><input type="checkbox" checked=${value ?? option.default}
    onChange=${(/** @type {any} */ event) => set(event.target.checked === option.default ? null : event.target.checked)} /> ${label}</label>`;
  if (option.name === "on") return html`<${Services} option=${option} value=${value} set=${set} />`;
  if (option.kind === "choice") return html`<label class="field" title=${option.help}><span class="name">${label}</span><select value=${value ?? ""} onChange=${(/** @type {any} */ event) => set(event.target.value || null)}>
    <option value="">${option.usual ?? option.default ?? "usual"}</option>${option.choices.map((/** @type {string} */ name) => html`<option value=${name}>${name}</option>`)}</select></label>`;
  const text = Array.isArray(value) ? value.join(", ") : value ?? "";
  const placeholder = option.usual ?? (Array.isArray(option.default) ? option.default.join(", ") : option.default) ?? "none";
  const read = (/** @type {string} */ typed) => option.many ? typed.split(",").map(part => part.trim()).filter(Boolean) : typed.trim();
  return html`<label class="field text" title=${option.help}><span class="name">${label}</span><${Box} type="text" spellcheck=${false} value=${text} placeholder=${placeholder}
    onSet=${(/** @type {string} */ typed) => { const given = read(typed); set(given.length ? given : null); }} /></label>`;
});

const SERVICES = { ec2: "EC2", rds: "RDS", aurora: "Aurora" };

/** @param {{option: any, value: string[] | null, set: (value: string[] | null) => void}} props */
function Services({ option, value, set }) {
  const on = value ?? option.default;
  return html`<fieldset class="services" title=${option.help}><legend>${title(option)}</legend>${Object.entries(SERVICES).map(([name, words]) => html`<label class="check"><input type="checkbox" checked=${on.includes(name)}
    onChange=${() => { const next = Object.keys(SERVICES).filter(other => other === name ? !on.includes(name) : on.includes(other)); set(next.length && next.join() !== option.default.join() ? next : null); }} /> ${words}</label>`)}</fieldset>`;
}

/** @param {any} option */
function unitOf(option) {
  const names = { percent: "%", months: "months" };
  return option.unit ? names[/** @type {"percent"} */ (option.unit)] ?? option.unit : ["growth", "demand_growth", "data_growth"].includes(option.name) ? "x" : "";
}

/** @typedef {{metric: string, sign: string, limit: number}} Goal */

/** @param {string} text @returns {Goal | null} */
export function readGoal(text) {
  const parts = /^\s*([a-z0-9_]+)\s*(<=|>=)\s*(\S+)\s*$/.exec(text);
  return parts && Number.isFinite(Number(parts[3])) ? { metric: parts[1], sign: parts[2], limit: Number(parts[3]) } : null;
}

/** Goals that a plan meets, each with a slider. `goals`: as texts; `inForce`: those that hold, defaults included. */
export const Goals = steady((/** @type {{goals: string[], inForce: string[], metrics: Record<string, any>, onMove: (goals: string[]) => void, onRest: () => void}} */ { goals, inForce, metrics, onMove, onRest }) => {
  const given = new Map(goals.map(text => [readGoal(text)?.metric ?? text, text]));
  const listed = [...goals, ...inForce.filter(text => !given.has(readGoal(text)?.metric ?? text))];
  const put = (/** @type {string} */ metric, /** @type {string} */ text) => onMove([...goals.filter(goal => readGoal(goal)?.metric !== metric), text]);
  const free = Object.values(metrics).filter(metric => !listed.some(text => readGoal(text)?.metric === metric.name));
  return html`<fieldset class="goals"><legend>Goals</legend>${listed.map(text => {
    const goal = readGoal(text);
    if (!goal) return html`<p key=${text}>${text} <button type="button" onClick=${() => { onMove(goals.filter(other => other !== text)); onRest(); }}>Remove</button></p>`;
    const metric = metrics[goal.metric], [from, to] = rangeOf(goal, metric);
    return html`<div class="goal" key=${goal.metric}><${Slider} label=${`${metric ? nameOf(metric) : goal.metric}, ${goal.sign === "<=" ? "at most" : "at least"}`} value=${goal.limit} usual="" unit=${metric?.unit ?? ""} from=${from} to=${to}
      help=${metric?.meaning ?? ""} onMove=${(/** @type {number | null} */ limit) => limit !== null && put(goal.metric, `${goal.metric}${goal.sign}${limit}`)} onRest=${onRest} />
      ${given.has(goal.metric) && html`<button type="button" class="quiet" aria-label=${`Remove the goal: ${metric ? nameOf(metric) : goal.metric}`} onClick=${() => { onMove(goals.filter(other => other !== text)); onRest(); }}>×</button>`}</div>`;
  })}
  <label class="field text"><span class="name">Add a goal</span><select value="" onChange=${(/** @type {any} */ event) => {
    const metric = metrics[event.target.value]; event.target.value = "";
    if (metric) { put(metric.name, `${metric.name}${metric.sign}${START[metric.name] ?? 10}`); onRest(); }
  }}><option value="">…</option>${free.map(metric => html`<option value=${metric.name}>${nameOf(metric)}</option>`)}</select></label></fieldset>`;
});

// Where a new goal begins: to be moved.
/** @type {Record<string, number>} */
const START = { tps: 300, p95_ms: 50, p99_ms: 20, p50_ms: 10, headroom_percent: 20, cost_usd_month: 500, failover_s: 120, zone_loss: 0 };

/** @param {Goal} goal @param {any} metric @returns {[number, number]} */
function rangeOf(goal, metric) {
  if (goal.metric.endsWith("_percent")) return [0, goal.metric === "headroom_percent" ? 200 : 100];
  if (goal.metric === "tps" || goal.metric === "tps_p5") return [10, 20000];
  if (goal.metric === "throttled_min") return [0, 240];
  if (goal.metric.endsWith("_ms")) return [0.5, 1000];
  return [0, Math.max(4 * goal.limit, metric?.scale ?? 1, 10)];
}
