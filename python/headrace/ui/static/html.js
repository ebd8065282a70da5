// @ts-check
// Markup as template literals: html`<p class="sub">${text}</p>`. All texts are escaped by Preact.
import { Component, h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.module.js";

// Letters that turn the order of those after them: one in a name would turn the sentence around it.
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;
/** @type {(child: any) => any} */
const straighten = child => typeof child === "string" ? child.replace(TURNS, "\ufffd") : Array.isArray(child) ? child.map(straighten) : child;

export const html = htm.bind((/** @type {any} */ type, /** @type {any} */ props, /** @type {any[]} */ ...children) => h(type, props, ...children.map(straighten)));
export { Component, render } from "./vendor/preact.mjs";

/** A component that is drawn again only where one of its values is another. Its functions are those of the drawing before until
 * then: each reads what the page has when it is called.
 * @param {(props: any) => any} draw @returns {any} */
export const steady = draw => class extends Component {
  shouldComponentUpdate(/** @type {any} */ next) {
    return Object.keys({ ...this.props, ...next }).some(name => next[name] !== /** @type {any} */ (this.props)[name] && typeof next[name] !== "function");
  }
  render() { return draw(this.props); }
};

/** A fold whose content is drawn once it is opened. `draw`: draws it.
 * @extends {Component<{title: string, draw: () => any}>} */
export class Folded extends Component {
  constructor(/** @type {any} */ props) { super(props); this.state = { open: false }; }
  render() {
    return html`<details onToggle=${(/** @type {any} */ event) => event.target === event.currentTarget && this.setState({ open: event.target.open })}><summary>${this.props.title}</summary>${this.state.open && this.props.draw()}</details>`;
  }
}
