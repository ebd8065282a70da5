// @ts-check
// A recording, judged: what bound, when, and what to do about it.
import { html } from "./html.js";
import { Blocks, Cards, Code, Refused, Title, partsOf } from "./view.js";
import { Box } from "./controls.js";
import { Panel } from "./lines.js";
import { tooLarge } from "./workload.js";

/** @param {File | undefined} file @param {any} page */
export async function judgeFile(file, page) {
  if (!file) return;
  const refusal = tooLarge(file, `Judge it on the command line: headrace doctor '${file.name}'`);
  if (refusal) { page.doctor.refusal = refusal; return page.show(); }
  page.judge({ name: file.name, text: await file.text() });
}

/** @param {any} page */
export function DoctorView(page) {
  const { doctor, state, go } = page, { answer, refusal, busy } = doctor, { storage = "" } = state.texts;
  return html`<main class="alone" aria-busy=${busy}>
    <${Title} words=${answer ? `${answer.view.title}.` : busy ? "Judging" : "The limit that bound a server, and its remedy"} />
    <p class="sub">${answer ? answer.view.subtitle : "A recording of iostat, sar, vmstat or CloudWatch, or a file of headrace doctor --record."}</p>
    <div class="asked"><label class="drop"><input type="file" onChange=${(/** @type {any} */ event) => { judgeFile(event.target.files[0], page); event.target.value = ""; }} /><span>${answer ? answer.name : "Drop a recording here, or choose one"}</span></label>
      <label class="field text"><span class="name">Today's storage, where the recording does not say</span><${Box} type="text" spellcheck=${false} placeholder="gp2:1200" value=${storage} onSet=${(/** @type {string} */ text) => go({ ...state, texts: { ...state.texts, storage: text.trim() } })} /></label></div>
    ${refusal && html`<${Refused} refusal=${refusal} />`}
    ${answer ? html`<${Cards} cards=${answer.view.cards} /><${Blocks} blocks=${partsOf(answer.view).warnings} /><${Seen} ticks=${answer.ticks} windows=${answer.result.windows} /><${Blocks} blocks=${partsOf(answer.view).rest} />
      <h2>The same on the command line</h2><${Code} lines=${answer.commands} />` : html`<h2>How to record one</h2><${Code} lines=${["iostat -xt 1 600 > iostat.txt", "headrace doctor mysql://watcher@db1 --record db1.jsonl"]} />`}</main>`;
}

const PANELS = [
  { title: "I/Os a second", unit: "measured", parts: [["read_iops", "reads", "--measured", 1], ["write_iops", "writes", "--tried", 1]] },
  { title: "Latency", unit: "ms, measured", log: true, parts: [["read_ms", "reads", "--measured", 1], ["write_ms", "writes", "--tried", 1]] },
  { title: "Time over a limit", unit: "%, measured", most: 100, parts: [["over_volume_iops", "volume's IOPS", "--warn", 100], ["over_volume_throughput", "volume's MiB/s", "--tried", 100], ["over_instance_iops", "instance's IOPS", "--quiet", 100], ["over_instance_throughput", "instance's MiB/s", "--third", 100]] },
  { title: "Credit balance", unit: "%, measured", most: 100, parts: [["balance_percent", "balance", "--measured", 1]] },
];

const DAY_S = 86_400, YEAR_S = 366 * DAY_S; // a recording without dates begins at 0

/** What was seen of each volume, with the windows at a limit shaded. @param {{ticks: any[], windows: any[]}} props */
function Seen({ ticks, windows }) {
  if (ticks.length < 2) return null;
  const first = ticks[0].t_unix, clock = first > YEAR_S, midnight = clock ? first - first % DAY_S : first;
  const times = ticks.map(tick => tick.t_unix - midnight), names = [...new Set(ticks.flatMap(tick => Object.keys(tick.volumes)))];
  const marks = ticks.map(tick => windows.some(window => window.from_s <= tick.t_unix - first && tick.t_unix - first < window.to_s));
  return names.map(name => html`<section class="day" key=${name}><h2>${name}</h2>${PANELS.map(({ title, parts, ...more }) => {
    const lines = parts.map(([column, label, colour, factor]) => ({ name: label, colour, values: ticks.map(tick => { const value = tick.volumes[name]?.[column]; return value === undefined || value === null ? null : value * Number(factor); }) })).filter(line => line.values.some(value => value));
    return lines.length ? html`<${Panel} key=${title} ...${more} title=${title} times=${times} clock=${clock} marks=${marks} lines=${lines} sync="doctor" height=${150} described=${`${title} of ${name}`} />` : null;
  })}</section>`);
}
