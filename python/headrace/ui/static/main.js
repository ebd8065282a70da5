// @ts-check
// The page: what is shown stands in the address; each change of it asks the server what it has to.
import { html, render } from "./html.js";
import { ask, keepKey, keepingUp, newestOnly } from "./asking.js";
import { OPTIONS, VIEWS, readAddress, writeAddress } from "./address.js";
import { PlanView } from "./plan.js";
import { DatabaseView } from "./database.js";
import { LabView, follow as followStream } from "./lab.js";
import { DoctorView, judgeFile } from "./doctor.js";
import { FleetView, openResult } from "./fleet.js";
import { ReplicasView, questionOf } from "./replicas.js";
import { ProofsView } from "./proofs.js";
import { StudiesView } from "./studies.js";
import { askDays, askReplica, askRun, engineName, startEngine } from "./engine.js";
import { Refused, setUnits } from "./view.js";
import { take } from "./workload.js";

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const wide = matchMedia("(min-width: 900px)");
// How long a slider rests before a plan is made, ms: between two movements of a hand.
const REST_MS = 250;
const DRAWN = { plan: PlanView, database: DatabaseView, fleet: FleetView, lab: LabView, replicas: ReplicasView, doctor: DoctorView, studies: StudiesView, proofs: ProofsView };
const SHOWN_IN = { plan: "plan", proof: "proofs", fleet: "fleet" };
// The kinds of the figures of a view: of each that does not name its own.
const KINDS = { plan: "prices published, all else simulated", database: "all figures simulated", fleet: "prices published, all else simulated", lab: "all figures measured", replicas: "simulated, the lab's servers measured", doctor: "measured, the model's simulated", studies: "simulated, unless published", proofs: "predicted ones simulated, the others measured" };
const FIRST_STUDY = 1; // takes a second; others take up to a minute
const ANSWER_MS = 40; // until a movement is drawn without its answer: two frames, and some
const AGAIN_MS = 5000; // between two looks at replicas: each takes some two seconds
const REPLICA = "gp3:500:3000"; // of the first look at the view: half of what the source has

/** @type {any} */
const page = {
  facts: null, state: null, wide: wide.matches, dropped: null, day: { answer: null, refusal: null },
  lab: { moments: [], commands: [], refusal: null, lost: false },
  course: { answer: null, refusal: null }, following: { answer: null, refusal: null },
  ...Object.fromEntries(["plan", "run", "study", "fleet", "topology", "replica", "proofs", "proof", "doctor"].map(name => [name, { answer: null, refusal: null, busy: false }])),
};

const askPlan = newestOnly("/api/plan", (answer, refusal) => {
  page.plan = { answer: answer ?? null, refusal, busy: false };
  show(); askAgain();
}, REST_MS);
const askPlanFile = newestOnly("/api/opened-plan", (answer, refusal) => { page.plan = { answer, refusal, busy: false }; show(); }, 0);
const askStudy = newestOnly("/api/study", (answer, refusal) => { page.study = { answer, refusal, busy: false }; show(); }, 0);
const askDay = keepingUp(askDays, (answer, refusal) => { page.day = { answer, refusal }; showAtOnce(); });
let answered = 0;
// The model follows a hand; sentences, intervals and commands come from the server once it rests.
const follow = (/** @type {string} */ name) => (/** @type {any} */ answer, /** @type {any} */ refusal, /** @type {any} */ question) => { page[name] = { answer: refusal ? page[name].answer : answer, refusal, question, at: ++answered }; showAtOnce(); };
const settle = (/** @type {string} */ name) => (/** @type {any} */ answer, /** @type {any} */ refusal, /** @type {any} */ question) => { page[name] = { answer: answer ?? page[name].answer, refusal, question, busy: false, at: ++answered }; show(); };
const askCourse = keepingUp(askRun, follow("course")), askWholeRun = newestOnly("/api/run", settle("run"), REST_MS);
const askFollowing = keepingUp(askReplica, follow("following")), askWholeReplica = newestOnly("/api/replica", settle("replica"), REST_MS);
const keep = (/** @type {string} */ name) => (/** @type {any} */ answer, /** @type {any} */ refusal) => { page[name] = { answer, refusal, busy: false }; show(); };
const askFleet = newestOnly("/api/fleet", keep("fleet"), 0), askProof = newestOnly("/api/proof", keep("proof"), 0), askProofs = newestOnly("/api/proofs", keep("proofs"), 0);
const askDoctor = newestOnly("/api/doctor", (answer, refusal, question) => { page.doctor = { answer, refusal, busy: false, storage: question.storage }; show(); }, 0);

page.move = (/** @type {any} */ change) => {
  const settings = Object.fromEntries(Object.entries({ ...page.state.settings, ...change.settings }).filter(([, value]) => value !== null));
  page.state = { ...page.state, ...change, settings, texts: { ...page.state.texts, ...change.texts } };
  askAgain();
  if (engineName() === "browser") showWithAnswer(); else show();
};
// A rest is a step of the back button: the address before a movement stays behind it, and none in between is written, since a
// browser takes some hundred in half a minute and then no more.
page.rest = () => {
  if (waiting || drawing) draw(); // the next control begins with what this one has set
  const address = writeAddress(page.state);
  if (address === page.rested) return;
  history.pushState(null, "", address);
  page.rested = address;
};
page.go = (/** @type {any} */ state) => { page.state = state; const address = writeAddress(state); history.pushState(null, "", address); page.rested = address; fresh(); };
page.choose = (/** @type {any} */ example) => {
  const storage = page.state.view === "plan" ? "" : example.storage || "gp3:500:6000";
  page.go({ ...page.state, workload: example.workload, settings: page.state.view === "plan" ? example.settings : {}, storage, texts: page.state.view === "plan" ? {} : page.state.texts });
};
page.drop = (/** @type {any} */ answer) => { page.dropped = answer; page.choose({ ...answer, settings: {}, storage: "" }); };
page.tell = (/** @type {any} */ refusal) => { page.dropped = { refusal }; show(); };
// Texts of an address that change where one is, such as a sort: no step of the back button, and nothing is asked.
page.note = (/** @type {Record<string, string>} */ texts) => {
  page.state = { ...page.state, texts: { ...page.state.texts, ...texts } };
  page.rested = writeAddress(page.state);
  history.replaceState(null, "", page.rested);
  show();
};
page.show = () => show();
// A result is shown where it belongs; an inventory stays with the fleet that is shown.
page.opened = (/** @type {any} */ result) => {
  const { view, texts } = page.state;
  if (result.kind !== "inventory") return page.go({ ...page.state, view: SHOWN_IN[/** @type {"plan"} */ (result.kind)], workload: result.kind === "plan" ? "" : page.state.workload, settings: {}, storage: "", texts: { file: result.file, ...(result.kind === "fleet" && texts.inventory ? { inventory: texts.inventory } : {}) } });
  page.inventories.set(result.file, result.name);
  page.note({ inventory: [...new Set([...(texts.inventory ?? "").split(","), result.file])].filter(Boolean).join() });
};
page.inventories = new Map();
page.refuse = (/** @type {any} */ refusal) => {
  if (page.state.view in OPTIONS) return page.tell(refusal);
  const name = page.state.view === "proofs" ? "proof" : "fleet"; page[name] = { ...page[name], refusal, busy: false }; show(); };
page.pick = (/** @type {any} */ point) => {
  if (page.kind === "demand") { page.move({ storage: point.storage }); page.rest(); return; }
  const settings = Object.fromEntries(Object.entries({ instance: point.instance, log_storage: point.log_storage, threads: page.state.settings.threads }).filter(([, value]) => value));
  page.go({ texts: {}, view: "database", workload: page.state.workload, storage: point.storage, settings });
};

// A recording is judged once it is dropped, and again when the storage is named: what bound it depends on its limits.
page.judge = async (/** @type {{name: string, text: string}} */ file) => {
  const { storage = "" } = page.state.texts;
  page.doctor = { ...page.doctor, refusal: null, busy: true }; show();
  page.judging = file;
  const [answer, refusal] = await ask("/api/doctor", { ...file, storage }).then(given => [given, null], reason => [null, reason]);
  if (page.judging !== file) return; // another was dropped meanwhile
  page.doctor = { answer, refusal, busy: false, storage };
  if (answer) page.go({ ...page.state, view: "doctor", texts: { ...page.state.texts, file: answer.file } }); else show();
};

function kindOf() {
  const chosen = page.facts.examples.find((/** @type {any} */ example) => example.workload === page.state.workload);
  return chosen?.kind ?? page.plan.answer?.workload.kind ?? page.dropped?.kind ?? (/^(sysbench|hammerdb)/.test(page.state.workload) ? "database" : "demand");
}

/** Another address: what was answered is of another question. */
function fresh() {
  if (!page.state.texts.file) page.doctor = { answer: null, refusal: null, busy: false };
  for (const question of [askDoctor, askPlan, askPlanFile, askDay, askCourse, askWholeRun, askStudy, askFleet, askFollowing, askWholeReplica, askProof, askProofs]) question.forget();
  page.day = page.course = page.following = { answer: null, refusal: null };
  page.planned = "";
  for (const name of ["plan", "run", "study", "fleet", "replica", "proof"]) page[name] = { answer: null, refusal: null, busy: true };
  show(); askAgain();
}

function askAgain() {
  const { view, workload, settings, storage, texts } = page.state;
  page.kind = kindOf();
  if (view === "doctor") {
    const { file, storage = "" } = texts, { answer } = page.doctor;
    if (!file || (answer && answer.file === file && page.doctor.storage === storage)) return;
    page.doctor = { ...page.doctor, busy: true }; show();
    return askDoctor({ file, storage });
  }
  if (view === "lab") return followLab();
  if (view === "studies") return texts.study && askStudy({ name: texts.study });
  if (view === "fleet") return texts.file && askFleet({ file: texts.file });
  if (view === "proofs") { askProofs({}); return (texts.file || texts.proof) && askProof(texts.file ? { file: texts.file } : { name: texts.proof }); }
  if (view === "database") { const question = { workload, storage, settings }; askCourse(question); return askWholeRun(question); }
  if (view === "replicas") {
    const question = questionOf(page.state);
    lookAtReplicas(); askFollowing(question); return askWholeReplica(question);
  }
  if (texts.file) return askPlanFile({ file: texts.file });
  const question = JSON.stringify([workload, settings]);
  if ((!page.plan.answer && !page.plan.refusal) || page.planned !== question) {
    page.planned = question;
    page.plan = { ...page.plan, busy: true }; show();
    askPlan({ workload, settings });
  }
  if (page.kind === "demand") askForDay();
}

/** The servers of the lab, looked at again and again for as long as the view is shown. */
async function lookAtReplicas() {
  if (page.looking) return;
  page.looking = true;
  while (page.state.view === "replicas") {
    await ask("/api/topology", {}).then(answer => { page.topology = { answer, refusal: null }; }, refusal => { page.topology = { ...page.topology, refusal }; });
    show();
    await new Promise(rested => setTimeout(rested, AGAIN_MS));
  }
  page.looking = false;
}

/** One stream for as long as the view is shown. */
function followLab() {
  if (page.lab.stop) return;
  page.lab.stop = followStream(page.lab, () => {
    if (page.state.view === "lab") return show();
    page.lab.stop(); page.lab.stop = null;
  });
}

/** The day needs no plan to follow a slider: it is drawn for what was recommended last. */
function askForDay() {
  const { workload, settings, storage } = page.state, result = page.plan.answer?.result;
  const best = result?.recommended ?? result?.choices.closest[0], today = result?.choices.compared;
  const drawn = [best && { role: result.recommended ? "recommended" : "closest", storage: best.storage }, today && { role: "today", storage: today.storage }, storage && { role: "tried", storage }].filter(Boolean);
  const choices = drawn.filter((choice, index) => drawn.findIndex(other => other.storage === choice.storage) === index);
  if (!choices.length) return;
  const growth = settings.demand_growth ?? settings.growth ?? 1;
  const first = settings.start_balance !== undefined || settings.cycle === "first";
  askDay({ workload, choices, growth, as_of: settings.as_of ?? null, region: settings.region ?? null,
    start_balance_percent: first ? settings.start_balance ?? 100 : null });
}

let drawing = 0, waiting = 0, drawn = false;

/** Draws the page once in the next frame, however much has changed until then. */
function show() {
  drawing ||= requestAnimationFrame(draw);
}

/** Draws the page with the answer of this browser's model, which takes a few ms, so that a movement is one frame and not two; where
 * it takes longer, without it. */
function showWithAnswer() {
  waiting ||= setTimeout(show, ANSWER_MS);
}

/** Draws the page now, and once a frame: what is drawn before the next frame begins is in it. */
function showAtOnce() {
  if (drawn) return show();
  drawn = true;
  requestAnimationFrame(() => { drawn = false; });
  draw();
}

function draw() {
  cancelAnimationFrame(drawing); clearTimeout(waiting);
  drawing = waiting = 0;
  const { facts, state } = page;
  if (!facts) return;
  page.kind = kindOf();
  document.title = `${VIEWS[/** @type {"plan"} */ (state.view)]} - Headrace`;
  const go = (/** @type {any} */ event, /** @type {string} */ view) => {
    event.preventDefault();
    if (view === state.view) return;
    const first = facts.examples.find((/** @type {any} */ example) => view === "plan" || example.kind === "database");
    const stays = state.workload !== "" && (page.kind === "database" || view === "plan"), best = page.plan.answer?.result.recommended;
    if (!(view in OPTIONS)) return page.go({ ...state, view, settings: {}, storage: "", texts: view === "studies" ? { study: facts.studies[FIRST_STUDY].name } : {} });
    page.go({ texts: view === "replicas" ? { replica: REPLICA } : {}, view, workload: stays ? state.workload : first.workload, settings: view !== "plan" ? {} : stays ? (page.kind === "database" ? { goals: ["tps>=300"] } : {}) : first.settings,
      storage: view === "plan" ? "" : (stays && best?.storage) || first.storage });
  };
  render(html`<header class="bar"><a class="brand" href="/" onClick=${(/** @type {any} */ event) => go(event, "plan")}><img src="/static/icon.svg" alt="" width="22" height="22" />Headrace</a>
    <nav aria-label="Views">${Object.entries(VIEWS).map(([view, title]) => html`<a href=${`/${view}`} aria-current=${view === state.view ? "page" : undefined} onClick=${(/** @type {any} */ event) => go(event, view)}>${title}</a>`)}</nav>
    <span class="facts">limits and prices known on ${facts.catalog}; ${KINDS[/** @type {"plan"} */ (state.view)]}</span></header>
    <${DRAWN[/** @type {"plan"} */ (state.view)]} ...${page} />
    <footer data-engine=${engineName()}>headrace ${facts.version}. This page changes ${facts.actions.length ? "the lab alone, after a confirmation," : "nothing"} and asks no other machine.</footer>`, root);
}

async function start() {
  document.documentElement.dataset.begun = ""; // early.js
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (token) { history.replaceState(null, "", location.pathname + location.search); const opened = await ask("/session", { token }).catch(() => null); if (opened) keepKey(opened.key); }
    page.facts = await ask("/api/start", {});
    setUnits(page.facts.words.unit);
  } catch (refusal) { root.replaceChildren(); render(html`<main class="closed"><h1>Headrace</h1><${Refused} refusal=${refusal} /></main>`, root); return; }
  root.replaceChildren();
  read();
  if (page.facts.model) startEngine().then(show);
  addEventListener("popstate", read);
  wide.addEventListener("change", () => { page.wide = wide.matches; show(); });
  addEventListener("dragover", event => event.preventDefault());
  addEventListener("drop", event => { event.preventDefault(); if (page.state.view === "doctor") judgeFile(event.dataTransfer?.files[0], page); else if (page.state.view === "fleet" || page.state.view === "proofs") openResult(event.dataTransfer?.files[0], page); else take(event.dataTransfer?.files[0], page); });
}

function read() {
  const state = readAddress(location, page.facts.options), first = page.facts.examples.find((/** @type {any} */ example) => state.view === "plan" || example.kind === "database");
  if (state.view === "studies") state.texts.study ??= page.facts.studies[FIRST_STUDY].name;
  if (state.view === "replicas") state.texts.replica ??= REPLICA;
  if (state.view in OPTIONS && !state.workload && !state.texts.file) Object.assign(state, { workload: first.workload, settings: state.view === "plan" ? first.settings : {} });
  if ((state.view === "database" || state.view === "replicas") && !state.storage) state.storage = first.storage;
  page.state = state;
  page.rested = writeAddress(state);
  history.replaceState(null, "", page.rested);
  fresh();
}

start();
