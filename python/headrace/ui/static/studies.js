// @ts-check
// Published experiments, repeated: their figures and ours, in their colours.
import { html } from "./html.js";
import { Blocks, Cards, Code, Refused, Title } from "./view.js";
import { Points } from "./points.js";

/** @param {any} page */
export function StudiesView({ facts, state, study, go, wide }) {
  const answer = study.answer, about = facts.studies.find((/** @type {any} */ entry) => entry.name === state.texts.study);
  const open = (/** @type {any} */ event, /** @type {string} */ name) => { event.preventDefault(); if (name !== state.texts.study) go({ ...state, texts: { study: name } }); };
  return html`<main class="sides" aria-busy=${study.busy}>
    <div class="head"><${Title} words=${answer?.view.title ?? about?.title ?? "Studies"} /><p class="sub">${answer?.view.subtitle ?? about?.question ?? ""}</p>
      ${study.busy && html`<p role="status">The model repeats it: from a second to a minute.</p>`}
      ${study.refusal && html`<${Refused} refusal=${study.refusal} />`}
      ${answer && html`<${Cards} cards=${answer.view.cards} />`}</div>
    <details class="side" open=${wide}><summary>Published experiments</summary><nav class="studies" aria-label="Studies">${facts.studies.map((/** @type {any} */ entry) => html`<a href=${`/studies?study=${entry.name}`}
      aria-current=${entry.name === state.texts.study ? "page" : undefined} onClick=${(/** @type {any} */ event) => open(event, entry.name)}>${entry.title}</a>`)}</nav></details>
    <div class="body">${answer && html`${answer.charts.flatMap((/** @type {any} */ chart) => chart.kind === "panels" ? chart.panels : [chart]).map((/** @type {any} */ chart) => html`<${Points} key=${chart.title + chart.y_title} chart=${chart} />`)}
      <h2>The same on the command line</h2><${Code} lines=${answer.commands} /><${Blocks} blocks=${answer.view.blocks} />`}</div></main>`;
}
