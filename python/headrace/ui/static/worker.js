// @ts-check
// The model of the browser, away from the page's own thread.
import { work } from "./model.js";

work();
