// The page: what its controls do.

import { ask, askForFile, Cancelled } from "./api.js";
import { Board } from "./board.js";
import { ChangePanel } from "./change_panel.js";
import { isAsked } from "./changes.js";
import { Completions } from "./completions.js";
import { key, sourceOf } from "./document.js";
import { $ } from "./elements.js";
import { chooseLanguage, labelPage, language, roomWord, t } from "./labels.js";
import { BriefPanel, DrawingPanel, relateAsSeen } from "./panels.js";
import { PlanPanel } from "./plan_panel.js";
import { diagramOf, Plans } from "./plans.js";
import { PlotPanel } from "./plot_panel.js";
import { begun, begunNear, found, foundNear } from "./searching.js";
import { State } from "./state.js";
import { download, kept, remember, remembered, restore } from "./storage.js";
import { cancel, isBusy, say, showAnswer, working } from "./working.js";

const TABS = ["plot", "brief", "drawing"];

const state = new State(), plans = new Plans();
let board, drawingPanel, briefPanel, plotPanel, planPanel, changePanel, completions, words, relations;
let wrong = new Set(), wrongKeys = [], relating = null;
let searches = { seed: 0, job: null, tab: "drawing" };

/** What the model knows, by the name of a type; null is a room of any. */
function wordsOf({ rooms, unknown_colour: colour }) {
  const known = rooms.map(roomWord), found = new Map(known.map((each) => [each.type, each]));
  const open = { label: "?", name: t("room"), colour, size: 0.58 };
  return { known, get: (type) => found.get(type) ?? open };
}

function show() {
  board.show(wrong);
  drawingPanel.show(wrong);
  briefPanel.show(wrongKeys);
  plotPanel.show();
  planPanel.show();
  changePanel.show();
  showSelection();
  showWish();
  const { rooms } = state.now;
  $("undo").disabled = !state.past.length;
  $("redo").disabled = !state.future.length;
  $("complete").disabled = isBusy() || !rooms.length;
  $("realise").disabled = isBusy() || !state.isComplete;
  $("answer").disabled = $("make-plans").disabled = isBusy();
  $("start").hidden = rooms.length > 0 || searches.tab === "plot" || $("cards").children.length > 0;
  for (const button of document.querySelectorAll("button[data-format]")) {
    const { of, format } = button.dataset;
    button.disabled = of === "plan" ? !planPanel.current : !rooms.length || (format !== "json" && !state.isComplete);
  }
}

function showWish() {
  const { wish } = state.now;
  for (const [id, name] of Object.entries(WISHES)) $(id).value = wish[name] ?? "";
  $("source").value = sourceOf(state.now);
  for (const { value, dataset, label } of $("candidates").options) {
    const said = t(dataset.search, { n: Number(value) * wish.num });
    if (label !== said) $("candidates").querySelector(`[value="${value}"]`).textContent = said;
  }
  $("candidates").closest("label").hidden = $("source").value !== "brief";
  $("livable").checked = wish.livable;
  $("livable").closest("label").hidden = wish.rules === "none";
}

const WISHES = { source: "source", area: "area", num: "num", candidates: "candidates", "living-rules": "rules" };

function onWish(name, { value, checked }) {
  const number = Number(value);
  const next = {
    source: value, rules: value, candidates: number, num: number, area: number > 0 ? number : null, livable: checked,
  }[name];
  state.change((doc) => { doc.wish[name] = next; });
}

// -- what survives a reload

let keeping, isFull = false;
function keep() {
  clearTimeout(keeping);
  keeping = setTimeout(keepNow, 250);
}

function keepNow() {
  clearTimeout(keeping);
  const wasFull = isFull;
  isFull = !remember(kept(state, plans, searches));
  if (isFull && !wasFull) say(t("full"), true);
}

function saveAll() {
  const all = { ...kept(state, plans, { ...searches, job: null }), past: [], future: [] };
  download(new Blob([JSON.stringify(all)], { type: "application/json" }), "studio.json");
  say(t("saved", { name: "studio.json" }));
}

/** The document before can be had back, and pinned plans stay. */
async function openFile(input) {
  const [file] = input.files, pinned = plans.list.filter((each) => each.pinned), steps = [...state.past, state.now];
  input.value = "";
  if (!file) return;
  try { restore(JSON.parse(await file.text()), state, plans); } catch {
    return say(t("bad-file", { name: file.name }), true);
  }
  state.past = steps;
  plans.set([...plans.list, ...pinned.map((each) => ({ ...each, id: plans.next++ }))]);
  state.set(state.now);
  board.fit();
  say(t("opened", { name: file.name }));
}

// -- checks, a moment after the last change

let waiting, checks = 0;
function check() {
  clearTimeout(waiting);
  const earlier = $("said").textContent; // of the drawing before; what is said meanwhile stays
  waiting = setTimeout(async () => {
    const number = ++checks;
    try {
      const diagram = state.drawing({ all: true });
      // the check is of rectangles: a plan with an L-shaped room can exist although it finds none
      const found = state.now.rooms.length && !plans.has(diagram) ? await ask("check", { diagram }) : { ok: true };
      const brief = $("brief").hidden ? null : await ask("check", { brief: state.briefAsked() });
      if (number !== checks) return;
      const had = $("said").classList.contains("wrong");
      const before = JSON.stringify([[...wrong], wrongKeys]);
      wrong = new Set((found.contradiction?.pairs ?? []).map((pair) => key(...pair)));
      if (!found.ok) say(found.contradiction?.sentence ?? found.warning, true);
      else if (had && !isBusy() && $("said").textContent === earlier) say("");
      if (brief) explain(brief);
      // lists are made anew only if they look otherwise: one of them may be open
      if (JSON.stringify([[...wrong], wrongKeys]) !== before) show();
    } catch (error) { say(error.message, true); }
  }, 300);
}

function explain({ ok, rules, keys, because }) {
  wrongKeys = keys;
  const lines = ok ? rules : [t("not-met"), ...because];
  $("meaning").replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    item.classList.toggle("wrong", !ok);
    return item;
  }));
}

// -- plans and files

const work = (sentence, does) => working(sentence, does, show);

/** Plans of what is asked; a search that was `begunEarlier` goes on. */
const makePlans = (wish, begunEarlier = null) => work(t("looking"), async (signal) => {
  if (!begunEarlier) {
    searches.job = await begun(state, wish, searches.seed++);
    keepNow();
  }
  const ended = () => { searches.job = null; keep(); };
  const best = await found(searches.job, { state, plans, signal, ended });
  if (best) choosePlan(best.id);
  showAnswer($("plans"));
});

/** The plan nearest to the one that is changed takes its place; why it cannot is said at the plan, too. */
const nearestPlan = (begunEarlier = null) => work(t("looking-near"), async (signal) => {
  try {
    if (!begunEarlier) {
      searches.job = await begunNear(state, plans, searches.seed++);
      keepNow();
    }
    const ended = () => { searches.job = null; keep(); };
    const { id, earlier, locked } = await foundNear(searches.job, { state, plans, signal, ended });
    choosePlan(id, locked);
    say(t("near-short", { number: id }));
    changePanel.tellFound(id, earlier);
  } catch (error) {
    changePanel.tell(error instanceof Cancelled ? t("cancelled") : error.message, true);
    throw error;
  }
});

const realise = () => makePlans({ ...state.now.wish, source: "drawing", num: 1, livable: false });

function mend({ rooms: [a, b], relation }) {
  state.relate(a, b, relation);
  realise();
}

function choosePlan(id, locked) {
  const { plan, plot } = plans.get(id);
  state.choose({ id, plot, diagram: diagramOf(plan), locked });
  board.fit();
}

async function save({ of, format }) {
  try {
    const body = of === "plan" ? { plan: planPanel.current.plan, language } : { diagram: state.drawing({ all: true }) };
    const name = `${of}.${format}`;
    download(await askForFile({ ...body, format }), name);
    say(t("saved", { name }));
  } catch (error) { say(error.message, true); }
}

async function share() {
  try {
    await navigator.clipboard.writeText(location.href);
    say(t("link-copied"));
  } catch { say(t("link-here")); }
}

// -- controls

function relate() {
  relating = board.chosen;
  say(t("choose-other"));
}

function onChosen(room, byKey) {
  if (relating !== null && room !== null && room !== relating && !byKey) finishRelating(room);
  drawingPanel.show(wrong);
  showSelection();
}

function finishRelating(room) {
  const first = relating;
  relating = null;
  relateAsSeen(state, first, room, relations);
  say("");
}

function showSelection() {
  const chosen = board.chosen, { rooms } = state.now;
  $("relate").disabled = chosen === null || rooms.length < 2;
  $("remove").disabled = chosen === null;
  $("given").disabled = chosen === null || rooms[chosen].type === null;
  $("given").textContent = t(chosen !== null && rooms[chosen].given ? "open-button" : "given-button");
}

function removeChosen() {
  const room = board.chosen;
  if (room === null) return;
  board.choose(null);
  state.removeRoom(room);
}

function toggleGiven() {
  const room = state.now.rooms[board.chosen];
  if (room?.type) state.setRoom(board.chosen, { given: !room.given });
}

function choosePanel(name) {
  searches.tab = document.body.dataset.tab = name;
  for (const each of TABS) {
    $(each).hidden = each !== name;
    $(`tab-${each}`).setAttribute("aria-selected", String(each === name));
    $(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
  show();
  check();
  keep();
}

function onTab(event) {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!way) return;
  const next = TABS.at((TABS.indexOf(searches.tab) + way) % TABS.length);
  choosePanel(next);
  $(`tab-${next}`).focus();
}

const KEYS = {
  c: () => $("complete").click(), p: () => $("realise").click(), m: () => $("make-plans").click(), g: toggleGiven,
  a: () => { choosePanel("drawing"); $("add-room").focus(); }, Delete: removeChosen, Backspace: removeChosen,
  r: () => (relating !== null && relating !== board.chosen && board.chosen !== null
    ? finishRelating(board.chosen) : relate()),
  Escape: () => {
    relating = null;
    $("export").open = $("weighing").open = false;
    board.choose(null);
  },
};

function onKey(event) {
  if ($("comparison").open) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    return event.shiftKey ? state.redo() : state.undo();
  }
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "y") return state.redo();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  const does = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!does) return;
  event.preventDefault(); // or a list that gets the focus takes the letter too
  does();
}

function listen() {
  const clicks = {
    undo: () => state.undo(), redo: () => state.redo(), share, relate, given: toggleGiven, cancel,
    remove: removeChosen, complete: () => completions.complete(), answer: () => completions.answerBrief(), realise,
    save: saveAll,
    clear: () => { completions.clear(); state.clear(); },
    example: () => { state.example(); choosePanel("brief"); say(t("example-is")); },
    open: () => $("open-file").click(), "from-file": () => $("plot-file").click(), trace: () => $("trace-file").click(),
    ...Object.fromEntries(TABS.map((name) => [`tab-${name}`, () => choosePanel(name)])),
  };
  for (const [id, does] of Object.entries(clicks)) $(id).addEventListener("click", () => does());
  for (const button of document.querySelectorAll("button[data-format]")) {
    button.addEventListener("click", () => { $("export").open = false; save(button.dataset); });
  }
  for (const [id, name] of Object.entries(WISHES)) $(id).addEventListener("change", ({ target }) => onWish(name, target));
  $("livable").addEventListener("change", ({ target }) => onWish("livable", target));
  $("make").addEventListener("submit", (event) => { event.preventDefault(); makePlans(state.now.wish); });
  $("open-file").addEventListener("change", ({ target }) => openFile(target));
  $("language").addEventListener("change", ({ target }) => { chooseLanguage(target.value); keepNow(); location.reload(); });
  document.querySelector("[role=tablist]").addEventListener("keydown", onTab);
  document.addEventListener("keydown", onKey);
  addEventListener("pagehide", keepNow);
  addEventListener("hashchange", () => { // another link, in the same tab
    if (state.follow(location.hash.slice(1))) state.set(state.now);
    else say(t("bad-link-kept"), true);
  });
  state.addEventListener("change", () => { show(); check(); keep(); });
  plans.addEventListener("change", () => { show(); keep(); });
}

/** What was there before, then what the address says; the sentence to begin with. */
function opening() {
  let isBack = false;
  try {
    searches = { ...searches, ...restore(remembered(), state, plans) };
    isBack = true;
  } catch { /* nothing was, or of another version */ }
  const fragment = location.hash.slice(1);
  if (fragment && !state.follow(fragment)) return [t(isBack ? "bad-link-kept" : "bad-link"), true];
  return [isBack && plans.list.length ? t("hello-back") : state.now.rooms.length ? "" : t("hello")];
}

async function begin() {
  labelPage();
  let model;
  try { model = await ask("model"); } catch (error) { return say(error.message, true); }
  words = wordsOf(model);
  relations = model.relations;
  $("language").value = language;
  board = new Board($("board"), state, words);
  drawingPanel = new DrawingPanel(state, board, words, relations);
  briefPanel = new BriefPanel(state, words, relations, model.most_rooms, model.brief_keys);
  plotPanel = new PlotPanel(state, say);
  planPanel = new PlanPanel(state, plans, words, (id) => choosePlan(id), mend);
  changePanel = new ChangePanel(state, plans, words, () => nearestPlan());
  completions = new Completions({ state, board, words, work, realise, nextSeed: () => searches.seed++ });
  board.onChosen = onChosen;
  const sentence = opening();
  listen();
  choosePanel(TABS.includes(searches.tab) ? searches.tab : "drawing");
  say(...sentence);
  $("model").textContent = t("model", { backbone: model.backbone, n: model.most_rooms });
  changePanel.open(isAsked(state.now.changes) || Boolean(searches.job?.near));
  goOn();
}

/** A search that was begun and whose answer did not come. */
function goOn() {
  if (searches.job?.near) nearestPlan(searches.job);
  else if (searches.job) makePlans(null, searches.job);
}

addEventListener("studio-back", () => {
  if (!words) return location.reload(); // it was not there when the page began
  say(t("answers-again"));
  check();
  goOn();
});

begin();
