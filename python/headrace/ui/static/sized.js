// @ts-check
// Charts that are drawn again at the width that there is.
import { Component } from "./html.js";

const LEAST_PX = 280; // of a phone; narrower is scaled down

/** Its width is `state.width`, px; its element, where it draws one, is `box`.
 * @template Props @extends {Component<Props>} */
export class SizedChart extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    /** @type {any} */
    this.state = { width: 720 };
    /** @type {HTMLElement | null} */
    this.box = null;
    /** @type {HTMLElement | null} */
    this.watched = null;
    /** @type {ResizeObserver | null} */
    this.watcher = null;
  }

  componentDidMount() { this.watch(); }
  componentDidUpdate() { this.watch(); }
  componentWillUnmount() { this.watcher?.disconnect(); }

  /** A chart of nothing has no element, until it has something. */
  watch() {
    if (!this.box || this.watched === this.box) return;
    this.watcher ??= new ResizeObserver(() => this.box && this.setState({ width: Math.max(LEAST_PX, this.box.clientWidth) }));
    this.watcher.observe(this.watched = this.box);
  }
}
