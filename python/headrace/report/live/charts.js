// @ts-check
// Charts that are drawn again with each move, as SVG at the width that there is.
import { element, figure, latency } from "./figures.js";
import { scale } from "./scales.js";

/** @typedef {{values: ArrayLike<number>, name: string, kind: string}} Line */
/** @typedef {{usd: number, value: number, name: string, kind: string, meets: boolean}} Dot */

const EDGE = { left: 64, right: 16, top: 12, bottom: 28 };

/** A drawing with its axes, empty. @param {number} width @param {number} height @param {any} x @param {any} y @param {(x: number) => string} xWords @param {(y: number) => string} yWords @param {string} described */
function paper(width, height, x, y, xWords, yWords, described) {
  const svg = element("svg:svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": described });
  for (const tick of y.ticks) {
    svg.append(element("svg:line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y.at(tick), y2: y.at(tick) }),
      element("svg:text", { class: "tick", x: EDGE.left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, [yWords(tick)]));
  }
  for (const tick of x.ticks) svg.append(element("svg:text", { class: "tick", x: x.at(tick), y: height - 8, "text-anchor": "middle" }, [xWords(tick)]));
  return svg;
}

/** The path of a line, broken where a value is missing. @param {ArrayLike<number>} times @param {ArrayLike<number>} values @param {any} x @param {any} y */
function pathOf(times, values, x, y) {
  let path = "", pen = "M";
  for (let nth = 0; nth < values.length; nth++) {
    if (!Number.isFinite(values[nth])) { pen = "M"; continue; }
    path += `${pen}${x.at(times[nth]).toFixed(1)},${y.at(values[nth]).toFixed(1)}`;
    pen = "L";
  }
  return path;
}

/** Lines over time. `times`: s. @param {number} width @param {ArrayLike<number>} times @param {Line[]} lines @param {{log?: boolean, most?: number, height?: number, unit: string, clock: boolean}} about */
export function drawLines(width, times, lines, { log, most, height = 180, unit, clock }) {
  const all = lines.flatMap(line => Array.from(line.values)).filter(Number.isFinite);
  const high = most ?? (Math.max(...all, 0) * (log ? 1.5 : 1.08) || 1);
  const low = log ? Math.max(Math.min(...all.filter(value => value > 0), high) / 1.5, 1e-3) : 0;
  const x = scale([times[0], times[times.length - 1]], EDGE.left, width - EDGE.right, false, false, true), y = scale([low, high], height - EDGE.bottom, EDGE.top, !!log, false, true);
  const hours = (times[times.length - 1] - times[0]) / 3600;
  const step = hours > 3 ? 3600 * Math.max(1, Math.ceil(hours / (width / 80))) : 60 * Math.max(1, Math.ceil((hours * 60) / (width / 80)));
  x.ticks = [];
  for (let tick = Math.ceil(times[0] / step) * step; tick <= times[times.length - 1]; tick += step) x.ticks.push(tick);
  const time = (/** @type {number} */ s) => clock ? `${String(Math.floor(s / 3600) % 24).padStart(2, "0")}:${String(Math.floor(s / 60) % 60).padStart(2, "0")}` : hours > 3 ? `${s / 3600} h` : `${s / 60} min`;
  const svg = paper(width, height, x, y, time, value => `${figure(value)}`, `${lines.map(line => line.name).join(" and ")}, ${unit}, over time`);
  for (const line of lines) {
    const path = pathOf(times, line.values, x, y);
    if (line.kind === "area" && path) svg.append(element("svg:path", { class: "area", d: `${path}L${x.at(times[times.length - 1])},${y.at(low)}L${x.at(times[0])},${y.at(low)}Z` }));
    svg.append(element("svg:path", { class: `line ${line.kind}`, d: path }));
  }
  return svg;
}

/** Cost against what is delivered: filled meets every goal. @param {number} width @param {Dot[]} dots @param {{log: boolean, goal: number | null, unit: string}} about */
export function drawChoices(width, dots, { log, goal, unit }) {
  const height = 240, values = [...dots.map(dot => dot.value), ...(goal === null ? [] : [goal])], costs = dots.map(dot => Math.max(dot.usd, 0.01));
  const x = scale(costs, EDGE.left, width - EDGE.right, true);
  const y = scale(values, height - EDGE.bottom, EDGE.top, log, !log);
  const svg = paper(width, height, x, y, value => `${figure(value)} USD`, value => log ? latency(value) : figure(value), `Cost a month against ${unit}; the table has the same`);
  if (goal !== null) svg.append(element("svg:line", { class: "goal", x1: EDGE.left, x2: width - EDGE.right, y1: y.at(goal), y2: y.at(goal) }),
    element("svg:text", { class: "tick", x: width - EDGE.right, y: y.at(goal) - 6, "text-anchor": "end" }, [`goal ${log ? latency(goal) : figure(goal)}`]));
  for (const dot of dots) svg.append(element("svg:circle", { class: `dot ${dot.kind} ${dot.meets ? "meets" : "misses"}`, cx: x.at(dot.usd), cy: y.at(dot.value), r: dot.kind ? 7 : 4.5 }, [element("svg:title", {}, [dot.name])]));
  return svg;
}
