// @ts-check
// Scales of charts that are drawn as SVG.

/** A scale from values to pixels, with ticks. @param {number[]} values @param {number} from @param {number} to @param {boolean} log
 * @param {boolean} [zero] whether it begins at 0 @param {boolean} [tight] whether it ends at the values */
export function scale(values, from, to, log, zero, tight) {
  let low = Math.min(...values), high = Math.max(...values);
  const room = tight ? 1 : log ? 1.25 : 1.06;
  if (log) { low = Math.max(low, 1e-3) / room; high *= room; } else { low = zero ? 0 : low; high = high > 0 ? high * room : high; }
  if (!(high > low)) high = low + 1;
  const turn = (/** @type {number} */ value) => log ? Math.log10(Math.max(value, low)) : value;
  const at = (/** @type {number} */ value) => from + (to - from) * Math.min(1, Math.max(0, (turn(value) - turn(low)) / (turn(high) - turn(low))));
  return { at, ticks: log ? logTicks(low, high) : evenTicks(low, high) };
}

/** @param {number} low @param {number} high */
function logTicks(low, high) {
  const ticks = [];
  const far = Math.log10(high / low), steps = far > 2.2 ? [1] : far > 0.9 ? [1, 2, 5] : null;
  if (!steps) return evenTicks(low, high);
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of steps) { const tick = step * 10 ** power; if (tick >= low && tick <= high) ticks.push(tick); }
  return ticks;
}

/** @param {number} low @param {number} high */
function evenTicks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(part => part * power).find(part => part >= rough) ?? rough, ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}
