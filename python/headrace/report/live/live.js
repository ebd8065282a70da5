// @ts-check
// "What if": sliders of a report that recompute its choices in this browser. Without script, or
// without the model, the report reads and prints as it is.
import { startModel, unpack } from "./model.js";
import { NEVER_MS, element, figure, latency, partsOf, resized, storageOf, usd } from "./figures.js";
import { drawChoices, drawLines } from "./charts.js";

/** @typedef {{role: string, words: string, storage: string, log: string | null, instance: string | null, cache_gib: number | null, rest_usd: number, volumes_usd: number, metrics: Record<string, number | null>}} Choice */
/** @typedef {{metric: string, sign: string, limit: number, words: string}} Goal */
/** @typedef {{name: string, label: string, help: string, unit: string, least: number, most: number, value: number, log: boolean}} Control */

const GIB = 1_073_741_824, WARM_S = 86_400, COURSE_S = 7_200;

/** Core figures of a demand by the metric's name. @type {Record<string, (choice: any) => number | null>} */
const DEMAND = {
  p50_ms: choice => choice.summary.worst_p50_ms, p95_ms: choice => choice.summary.worst_p95_ms, p99_ms: choice => choice.summary.worst_p99_ms,
  p999_ms: choice => choice.summary.worst_p999_ms, mean_ms: choice => choice.summary.worst_mean_ms,
  overall_p50_ms: choice => choice.summary.p50_ms, overall_p95_ms: choice => choice.summary.p95_ms, overall_p99_ms: choice => choice.summary.p99_ms,
  throttled_min: choice => choice.summary.throttled_s / 60, longest_wait_s: choice => choice.summary.longest_wait_s,
  lowest_balance_percent: choice => choice.summary.lowest_balance_percent ?? 100, credits_empty_min: choice => choice.summary.credits_empty_s / 60,
  instance_empty_min: choice => choice.summary.instance_empty_s / 60, peak_queue: choice => choice.summary.peak_queue, queue_at_end: choice => choice.summary.queue_at_end,
};
const SLACK = 1e-9;

/** The report's part that moves. */
class WhatIf {
  /** @param {any} report @param {HTMLElement} place @param {(questions: () => object[]) => Promise<any[]>} ask */
  constructor(report, place, ask) {
    this.report = report; this.place = place; this.ask = ask;
    this.demand = report.subject === "demand";
    /** @type {Record<string, number>} */
    this.values = Object.fromEntries(report.controls.map((/** @type {Control} */ control) => [control.name, control.value]));
    this.own = report.choices[0].storage;
    this.headroom = report.goals.find((/** @type {Goal} */ goal) => goal.metric === "headroom_percent")?.limit ?? 0;
    /** USD that a list price counts here, by choice: discounts and pairs of servers. @type {number[] | null} */
    this.rates = null;
    this.answer = element("div", { "aria-live": "polite" });
    this.choiceChart = element("div"); this.courseCharts = element("div");
    /** @type {any[]} */
    this.rows = [];
    /** @type {any} */
    this.course = null;
    /** Whether the model has the load already. */
    this.loaded = false;
    this.table = element("div", { class: "scroll", tabindex: 0 });
    place.replaceChildren(element("h2", {}, ["What if?"]),
      element("p", { class: "sub" }, ["Each move is computed in this browser, by the model that made the report. ", this.demand ? "Storages grow with the data." : "Figures are best guesses: the probabilities of the plan stand below."]),
      this.drawControls(), this.answer, this.choiceChart, this.courseCharts, this.table);
    let width = 0;
    new ResizeObserver(() => { if (this.width !== width) { width = this.width; this.showChoices(); this.showCourse(); } }).observe(this.choiceChart);
  }

  drawControls() {
    const form = element("form", { class: "controls" });
    form.addEventListener("submit", event => event.preventDefault());
    for (const control of /** @type {Control[]} */ (this.report.controls)) form.append(this.drawSlider(control));
    const input = /** @type {HTMLInputElement} */ (element("input", { type: "text", value: this.own, spellcheck: "false", maxlength: 200 }));
    input.addEventListener("input", () => { this.own = input.value.trim(); this.move(); });
    form.append(element("label", {}, ["A storage of your own ", input, element("small", {}, ["TYPE:SIZE_GIB[:IOPS[:MIB_S]]"])]));
    const parts = partsOf(this.own);
    if (parts && ["gp3", "io1", "io2", "io2-block-express"].includes(parts.type)) {
      const most = Math.max(16_000, 2 * (parts.iops ?? 3_000)), iops = { name: "", label: "its IOPS", help: "IOPS that are provisioned for each of its volumes.", unit: "IOPS", least: parts.type === "gp3" ? 3_000 : 100, most, value: parts.iops ?? 3_000, log: true };
      form.append(this.drawSlider(iops, value => {
        const now = partsOf(this.own);
        if (now) { this.own = storageOf({ ...now, iops: Math.round(value / 100) * 100 }); input.value = this.own; this.move(); }
      }));
    }
    return form;
  }

  /** @param {Control} control @param {(value: number) => void} [onMove] */
  drawSlider(control, onMove) {
    const turn = (/** @type {number} */ value) => control.log ? Math.log(value) : value;
    const step = (turn(control.most) - turn(control.least)) / 400;
    const input = /** @type {HTMLInputElement} */ (element("input", { type: "range", min: turn(control.least), max: turn(control.most), step, value: turn(control.value) }));
    const output = element("output", {}, [spoken(control.value, control.unit)]);
    input.addEventListener("input", () => {
      let value = control.log ? Math.exp(Number(input.value)) : Number(input.value);
      // Where the plan stands can be met again exactly.
      if (Math.abs(turn(value) - turn(control.value)) < step) value = control.value;
      if (control.unit === "clients") value = Math.max(1, Math.round(value));
      output.textContent = spoken(value, control.unit);
      input.setAttribute("aria-valuetext", output.textContent);
      if (onMove) onMove(value); else { this.values[control.name] = value; this.move(); }
    });
    return element("label", { title: control.help }, [`${control.label} `, input, output]);
  }

  /** The choices as they are asked: grown with the data, and the reader's own. @returns {Choice[]} */
  choices() {
    const ratio = (this.values.data_growth ?? 1) / this.report.data_growth;
    const grown = this.report.choices.map((/** @type {Choice} */ choice) => ({ ...choice, storage: resized(choice.storage, ratio), cache_gib: (choice.cache_gib ?? 0) * (this.values.cache ?? 1) }));
    return [...grown, { ...grown[0], role: "yours", words: this.own, storage: this.own }];
  }

  /** @param {Choice[]} choices @param {number} more @param {boolean} drawn */
  question(choices, more, drawn) {
    const { question } = this.report;
    if (this.demand) {
      const load = this.loaded ? null : question.load;
      this.loaded = true;
      return { ...question, load, factor: this.values.demand_growth * more, storages: choices.map(choice => choice.storage), day_of: drawn ? choices.length - 1 : null };
    }
    const candidates = choices.map(({ storage, log, instance, cache_gib }) => ({ storage, log, instance, cache_bytes: (cache_gib ?? 0) * GIB }));
    const clients = question.clients === null ? null : Math.ceil(this.values.threads * more - SLACK);
    const arrivals_tps = question.arrivals_tps === null ? null : question.arrivals_tps * more;
    return { ...question, growth: this.values.data_growth, choices: candidates, clients, arrivals_tps, seconds: WARM_S, course_of: drawn ? [choices.length - 1, COURSE_S] : null };
  }

  /** Asks anew: first the day of the reader's own storage alone, which follows a slider, then all. */
  async move() {
    const choices = this.choices(), more = 1 + this.headroom / 100;
    const [quick] = await this.ask(() => [this.question(choices.slice(-1), 1, true)]);
    if (this.refuse(quick)) return;
    this.course = quick.columns;
    this.showCourse();
    const [plain, grown] = await this.ask(() => [this.question(choices, 1, false), this.question(choices, more, false)]);
    if (this.refuse(plain) || this.refuse(grown)) return;
    const now = (plain.demand ?? plain.database).choices, then = (grown.demand ?? grown.database).choices;
    this.rates ??= now.map((/** @type {any} */ answer, /** @type {number} */ nth) => choices[nth].volumes_usd / (listed(answer) || 1) || 1);
    const rates = /** @type {number[]} */ (this.rates);
    this.rows = choices.map((choice, nth) => this.judge(choice, now[nth], then[nth], rates[choice.role === "yours" ? 0 : nth], more));
    this.showChoices();
  }

  /** Shows a refusal in the place of the answer, and says whether there was one. @param {any} answer */
  refuse({ refused }) {
    if (refused) this.answer.replaceChildren(element("p", { class: "warn" }, [`${refused.value}: ${refused.rule} (${refused.source}). ${refused.hint}`]));
    return Boolean(refused);
  }

  /** What a choice comes to: cost, figure, and the goals it misses. @param {Choice} choice @param {any} now @param {any} then @param {number} rate @param {number} more */
  judge(choice, now, then, rate, more) {
    const list = listed(now), cost = list === null ? null : choice.rest_usd + rate * list;
    if (now.status === "invalid" || then.status === "invalid") return { choice, now, cost, value: null, p95: null, misses: [now.why ?? then.why], meets: false };
    const metric = (/** @type {any} */ answer, /** @type {string} */ name) => name === "cost_usd_month" ? cost : this.demand ? (DEMAND[name] ? DEMAND[name](answer) : choice.metrics[name]) : (answer.figures[name] ?? choice.metrics[name]);
    const misses = [];
    for (const goal of /** @type {Goal[]} */ (this.report.goals)) {
      if (goal.metric === "headroom_percent") {
        if (this.demand && this.headroom > 0 && then.summary.throttled_s > 1e-6) misses.push(`throttled at ${figure(this.headroom)} % more`);
        continue;
      }
      let value = metric(then, goal.metric) ?? null;
      if (!this.demand && goal.sign === ">=" && value !== null) value /= more;
      if (value === null || (goal.sign === "<=" ? value > goal.limit + SLACK : value < goal.limit - SLACK)) misses.push(goal.words);
    }
    const value = this.demand ? now.summary.worst_p99_ms : now.figures.tps;
    return { choice, now, cost, value, p95: this.demand ? null : now.figures.p95_ms, misses, meets: misses.length === 0 };
  }

  get width() { return Math.max(280, this.choiceChart.clientWidth || 640); }

  showChoices() {
    if (!this.rows.length) return;
    const order = [...this.rows].sort((a, b) => Number(b.meets) - Number(a.meets) || (a.cost ?? Infinity) - (b.cost ?? Infinity));
    const role = (/** @type {string} */ name) => this.rows.find(row => row.choice.role === name);
    // The plan's recommendation stays the answer for as long as it meets the goals.
    const recommended = role("recommended"), best = recommended?.meets ? recommended : order[0];
    const cards = [[best === recommended ? "Recommended" : "Cheapest that meets every goal", best.meets ? best : null], ["Today", role("today")], ["Yours", role("yours")]].filter(([, row]) => row !== undefined);
    this.answer.replaceChildren(element("ul", { class: "cards" }, cards.map(([label, row]) => this.card(String(label), row))));
    this.choiceChart.replaceChildren(this.drawnChoices(best));
    this.table.replaceChildren(this.tableOf(order, best));
  }

  /** @param {string} label @param {any} row */
  card(label, row) {
    if (!row) return element("li", { class: "warn" }, [element("p", { class: "label" }, [label]), element("p", { class: "figure" }, ["none"]), element("p", { class: "meaning" }, ["No choice of this report meets them: headrace plan searches all."])]);
    const value = row.value === null ? "" : this.demand ? `I/O p99 ${latency(row.value)}. ` : `${figure(row.value)} tps, p95 ${latency(row.p95)}. `;
    const meaning = row.meets ? `${value}Meets every goal.` : `${value}Misses: ${row.misses.join(", ")}.`;
    return element("li", { class: !row.meets ? "warn" : label === "Today" || label === "Yours" ? "" : "good" }, [element("p", { class: "label" }, [`${label}: ${this.named(row.choice)}`]),
      element("p", { class: "figure" }, [usd(row.cost), " ", element("small", {}, ["USD a month"])]), element("p", { class: "meaning" }, [meaning])]);
  }

  /** @param {Choice} choice */
  named(choice) { return `${choice.instance ? `${choice.instance} with ` : ""}${choice.storage}${choice.log ? `, log on ${choice.log}` : ""}`; }

  /** @param {any} best */
  drawnChoices(best) {
    const kinds = /** @type {Record<string, string>} */ ({ today: "warn", yours: "own" });
    const dots = this.rows.filter(row => row.cost !== null && row.value !== null && Number.isFinite(row.value)).map(row => ({ usd: row.cost, value: this.demand ? Math.min(row.value, NEVER_MS) : row.value, name: `${this.named(row.choice)}: ${usd(row.cost)} USD`, kind: row === best && best.meets ? "good" : kinds[row.choice.role] ?? "", meets: row.meets }));
    const goal = this.report.goals.find((/** @type {Goal} */ goal) => goal.metric === (this.demand ? "p99_ms" : "tps"))?.limit ?? null;
    const unit = this.demand ? "I/O p99 of the worst five minutes" : "transactions a second";
    const filled = `filled: meets every goal${this.demand ? "; at the top: a minute or more" : ""}`;
    return figureOf(`Cost against ${unit}`, filled, drawChoices(this.width, dots, { log: this.demand, goal, unit }));
  }

  showCourse() {
    const { course, width, own } = this;
    if (!course) return;
    const times = course.t_s, clock = this.demand && this.report.clock;
    const figures = this.demand ? [
      figureOf(`The day on ${own}`, "I/Os a second: asked (filled) and delivered", drawLines(width, times, [{ name: "asked", values: course.asked_iops, kind: "area" }, { name: "delivered", values: course.iops, kind: "own" }], { unit: "I/Os a second", clock })),
      figureOf("I/O p99", "ms", drawLines(width, times, [{ name: "p99", values: course.p99_ms ?? [], kind: "own" }], { unit: "ms", log: true, height: 130, clock })),
    ] : [figureOf(`The first two hours on ${own}`, "transactions a second", drawLines(width, times, [{ name: "tps", values: course.tps, kind: "own" }], { unit: "transactions a second", clock }))];
    const low = course.balance_percent?.some((/** @type {number} */ value) => value < 99.9);
    if (low) figures.push(figureOf("Credit balance", "%", drawLines(width, times, [{ name: "balance", values: course.balance_percent, kind: "own" }], { unit: "%", most: 100, height: 110, clock })));
    this.courseCharts.replaceChildren(...figures);
  }

  /** @param {any[]} order @param {any} best */
  tableOf(order, best) {
    const titles = ["storage", "USD/month", ...(this.demand ? ["I/O p99", "throttled"] : ["tps", "p95"]), "goals"];
    const head = element("tr", {}, titles.map((title, nth) => element("th", { scope: "col", ...(nth > 0 && nth < 4 ? { class: "right" } : {}) }, [title])));
    const rows = order.map(row => {
      const invalid = row.value === null;
      const figures = invalid ? ["-", "-"] : this.demand ? [latency(row.value), row.now.summary.throttled_s > 1e-6 ? `${figure(row.now.summary.throttled_s / 60)} min` : "never"] : [figure(row.value), latency(row.p95)];
      const role = ["recommended", "today", "yours"].includes(row.choice.role) ? ` (${row.choice.role})` : "";
      const cells = [this.named(row.choice) + role, usd(row.cost), ...figures, row.meets ? "meets every goal" : `misses: ${row.misses.join(", ")}`];
      return element("tr", row === best && best.meets ? { class: "marked" } : {}, cells.map((cell, nth) => element("td", { "data-title": titles[nth], class: nth > 0 && nth < 4 ? "right" : nth === 0 ? "whole" : "" }, [cell])));
    });
    return element("table", {}, [element("caption", {}, ["Simulated; the choices of the plan, as the sliders stand"]), element("thead", {}, [head]), element("tbody", {}, rows)]);
  }
}

/** x 1.5, or 16 clients. @param {number} value @param {string} unit */
const spoken = (value, unit) => unit === "times" ? `x ${figure(value)}` : `${figure(value)} ${unit}`;

/** USD a month of a choice's volumes at list prices. @param {any} answer */
const listed = answer => answer.usd_month ?? answer.volumes_usd_month ?? null;

/** @param {string} title @param {string} unit @param {Element} drawing */
const figureOf = (title, unit, drawing) => element("figure", {}, [element("figcaption", {}, [element("strong", {}, [title]), ` ${unit}`]), drawing]);

/** Starts the part that moves. @param {HTMLElement} place @param {string} report @param {string} packed */
async function start(place, report, packed) {
  try {
    const ask = await startModel(packed);
    await new WhatIf(await unpack(report).json(), place, ask).move();
  } catch (error) {
    place.replaceChildren(element("p", { class: "warn" }, [`This browser cannot recompute the plan (${error}): the figures below are those of the report.`]));
  }
}

const place = document.getElementById("whatif"), report = document.getElementById("whatif-question"), packed = document.getElementById("whatif-model");
if (place && report?.textContent && packed?.textContent) start(place, report.textContent, packed.textContent);
