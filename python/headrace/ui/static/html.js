// @ts-check
// Markup as template literals: html`<p class="sub">${text}</p>`. All texts are escaped by Preact.
import { h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.module.js";

export const html = htm.bind(h);
export { Component, render } from "./vendor/preact.mjs";
