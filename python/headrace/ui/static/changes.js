// @ts-check
// Changes of the lab: each is proposed, shown with the command that it equals, and carried out when it is confirmed.
import { Component, html } from "./html.js";
import { ask } from "./asking.js";
import { Control } from "./controls.js";
import { StorageControl } from "./storage.js";
import { Code, Refused } from "./view.js";

/** @extends {Component<{actions: any[], volumes: any[]}>} */
export class ChangePanel extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    /** @type {{action: string, subject: string, storage: string, settings: Record<string, any>, proposal: any, refusal: any, done: string}} */
    this.state = { action: props.actions[0].name, subject: "", storage: "gp3:20", settings: {}, proposal: null, refusal: null, done: "" };
  }

  async propose(/** @type {any} */ event) {
    event.preventDefault();
    const { action, subject, storage, settings } = this.state;
    try { this.setState({ proposal: await ask("/api/propose", { action, subject: action === "create" ? storage : subject, settings }), refusal: null, done: "" }); }
    catch (refusal) { this.setState({ proposal: null, refusal, done: "" }); }
  }

  async confirm() {
    const { ticket, commands } = this.state.proposal;
    this.setState({ proposal: null });
    try { await ask("/api/change", { ticket }); this.setState({ refusal: null, done: commands[0] }); }
    catch (refusal) { this.setState({ refusal }); }
  }

  render() {
    const { actions, volumes } = this.props, { action, subject, storage, settings, proposal, refusal, done } = this.state;
    const chosen = actions.find(entry => entry.name === action);
    return html`<section class="change"><h2>Change the lab</h2>${refusal && html`<${Refused} refusal=${refusal} />`}${done && html`<p class="good" role="status">Done: ${done}</p>`}
      <form onSubmit=${(/** @type {any} */ event) => this.propose(event)}><label class="field"><span class="name">Change</span><select value=${action} onChange=${(/** @type {any} */ event) => this.setState({ action: event.target.value, settings: {} })}>${actions.map(entry => html`<option value=${entry.name}>${entry.title}</option>`)}</select></label>
        ${action === "create" ? html`<${StorageControl} storage=${storage} onMove=${(/** @type {string} */ text) => this.setState({ storage: text })} onRest=${() => {}} />`
          : html`<label class="field"><span class="name">Volume</span><input type="text" required spellcheck=${false} list="volumes" value=${subject} onInput=${(/** @type {any} */ event) => this.setState({ subject: event.target.value })} /></label>
            <datalist id="volumes">${volumes.map(volume => html`<option value=${volume.name ?? volume.id}></option>`)}</datalist>`}
        ${chosen.options.map((/** @type {any} */ option) => html`<${Control} key=${action + option.name} option=${option} value=${settings[option.name] ?? null} onMove=${(/** @type {any} */ value) => this.setState((/** @type {any} */ before) => ({ settings: { ...before.settings, [option.name]: value } }))} onRest=${() => {}} />`)}
        <button type="submit">${chosen.title} …</button></form>
      ${proposal && html`<${Confirmation} title=${chosen.title} proposal=${proposal} onConfirm=${() => this.confirm()} onLeave=${() => this.setState({ proposal: null })} />`}</section>`;
  }
}

/** Asks before anything happens; Escape leaves it. @extends {Component<{title: string, proposal: any, onConfirm: () => void, onLeave: () => void}>} */
class Confirmation extends Component {
  constructor(/** @type {any} */ props) { super(props); this.box = /** @type {HTMLDialogElement | null} */ (null); }
  componentDidMount() { this.box?.showModal(); }
  render() {
    const { title, proposal, onConfirm, onLeave } = this.props;
    return html`<dialog aria-labelledby="confirm" onClose=${onLeave} ref=${(/** @type {any} */ box) => { this.box = box; }}><h2 id="confirm">${title}?</h2><p>${proposal.consequence}</p><p>It is the same as</p><${Code} lines=${proposal.commands} />
      <div class="answers"><button type="button" class="go" onClick=${onConfirm}>${title}</button><button type="button" autofocus onClick=${onLeave}>Leave it</button></div></dialog>`;
  }
}
