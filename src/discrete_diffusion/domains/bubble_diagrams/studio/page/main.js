// The page: what its controls do.

import { ask, askForEvents, askForFile } from "./api.js";
import { Board } from "./board.js";
import { Card } from "./cards.js";
import { $ } from "./elements.js";
import { BriefPanel, DrawingPanel, relateAsSeen, roomNames } from "./panels.js";
import { key, State } from "./state.js";

const SCALE = 64; // of a board, for the radius of a living room
const COMPLETIONS = 4;
const STEP = 28; // milliseconds that a step of the sampler is shown at least

const state = new State();
let board, drawingPanel, briefPanel, words, relations;
let wrong = new Set(), wrongKeys = [], relating = null, busy = false, seed = 0;
let plan = null, planOf = "", isPlanShown = false; // the last plan, and the drawing that it is of

function say(sentence, isWrong = false) {
  $("said").textContent = sentence;
  $("said").classList.toggle("wrong", isWrong);
}

/** What the model knows, by the name of a type; null is a room of any. */
function wordsOf({ rooms, unknown_colour: colour }) {
  const found = new Map(rooms.map((each) => [each.type, each]));
  const open = { label: "?", name: "Room", colour, size: 0.58 };
  return { known: rooms, get: (type) => found.get(type) ?? open };
}

const drawn = () => JSON.stringify(state.drawing({ all: true }));

/** The plan of what is drawn now; null if none was found yet, or of another drawing only. */
const planNow = () => (plan && planOf === drawn() ? plan : null);

function show() {
  board.show(wrong);
  drawingPanel.show(wrong);
  briefPanel.show(wrongKeys);
  showSelection();
  const { rooms } = state.now;
  $("undo").disabled = !state.past.length;
  $("redo").disabled = !state.future.length;
  $("complete").disabled = busy || !rooms.length;
  $("realise").disabled = busy || !state.isComplete;
  $("answer").disabled = busy;
  $("plan").hidden = !isPlanShown || !planNow();
  for (const button of $("export").querySelectorAll("button")) {
    const { of, format } = button.dataset;
    button.disabled = of === "plan" ? !planNow() : !rooms.length || (format !== "json" && !state.isComplete);
  }
}

// -- checks, a moment after the last change

let waiting, checks = 0;
function check() {
  clearTimeout(waiting);
  const earlier = $("said").textContent; // of the drawing before; what is said meanwhile stays
  waiting = setTimeout(async () => {
    const number = ++checks;
    try {
      const found = state.now.rooms.length
        ? await ask("check", { diagram: state.drawing({ all: true }) }) : { ok: true };
      const brief = $("brief").hidden ? null : await ask("check", { brief: state.briefAsked() });
      if (number !== checks) return;
      const had = wrong.size || $("said").classList.contains("wrong");
      const before = JSON.stringify([[...wrong], wrongKeys]);
      wrong = new Set((found.contradiction?.pairs ?? []).map((pair) => key(...pair)));
      if (!found.ok) say(found.contradiction?.sentence ?? found.warning, true);
      else if (had && !busy && $("said").textContent === earlier) say("");
      if (brief) explain(brief);
      // lists are made anew only if they look otherwise: one of them may be open
      if (JSON.stringify([[...wrong], wrongKeys]) !== before) show();
    } catch (error) { say(error.message, true); }
  }, 300);
}

function explain({ ok, rules, keys, because }) {
  wrongKeys = keys;
  const lines = ok ? rules : ["No plan meets this:", ...because];
  $("meaning").replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    item.textContent = line;
    item.classList.toggle("wrong", !ok);
    return item;
  }));
}

// -- completions

async function working(sentence, work) {
  if (busy) return;
  busy = true;
  say(sentence);
  show();
  try { await work(); } catch (error) {
    say(error.message, true);
    for (const card of [...$("cards").children]) if (card.querySelector("button:disabled")) card.remove();
  } finally {
    busy = false;
    show();
  }
}

function dealt(count) {
  const actions = {
    use: (card) => { state.adopt(card.diagram, SCALE); board.fit(); mark(card); },
    realise: (card) => { actions.use(card); realise(); },
  };
  const cards = Array.from({ length: count }, (_, k) => new Card(k + 1, words, actions));
  $("cards").replaceChildren(...cards.map((card) => card.element));
  return cards;
}

function mark(card) {
  for (const each of $("cards").children) each.classList.toggle("chosen", each === card?.element);
}

const complete = () => working("Completing …", async () => {
  const given = state.drawing();
  const cards = dealt(COMPLETIONS);
  const places = state.now.rooms.map(({ x, y, r }) => [x / SCALE, y / SCALE, r ?? undefined]);
  for (const card of cards) card.begin(given, places);
  let shown = performance.now();
  const body = { given, completions: COMPLETIONS, seed: seed++, positions: true };
  const { diagrams, approximate, seconds } = await askForEvents("complete", body, async (revealed) => {
    for (const each of revealed) cards[each.completion].reveal(each);
    await new Promise((done) => setTimeout(done, Math.max(0, shown + STEP - performance.now())));
    shown = performance.now();
  });
  await finish(cards, diagrams);
  const about = approximate.length ? `; approximate: ${approximate.join("; ")}` : "";
  say(`${diagrams.length} completions in ${seconds.toFixed(1)} s${about}. Choose one, or complete again for others.`);
});

const answerBrief = () => working("Answering the brief, which may take half a minute …", async () => {
  const given = state.now.brief.keep && state.now.rooms.length ? { given: state.drawing() } : {};
  const body = { brief: state.briefAsked(), num: COMPLETIONS, seed: seed++, positions: true, ...given };
  $("cards").replaceChildren();
  const { diagrams, seconds } = await ask("brief", body);
  await finish(dealt(diagrams.length), diagrams);
  say(`${diagrams.length} diagrams that meet the brief, in ${seconds.toFixed(1)} s.`);
});

async function finish(cards, diagrams) {
  await Promise.all(cards.map((card, k) => card.finish(diagrams[k])));
  for (const card of cards) {
    const { rooms, relations: said } = card.diagram;
    ask("check", { diagram: { rooms, relations: said }, complete: true })
      .then((found) => card.judge(found), (error) => say(error.message, true));
  }
}

// -- plans and files

const realise = (another = 0) => working("Looking for a plan …", async () => {
  if (!state.isComplete) throw new Error("some rooms or relations are open; complete the diagram first");
  const body = { diagram: state.drawing({ all: true }), seed: another };
  if ($("area").value) body.total_area = Number($("area").value);
  if ($("ratio").value) body.ratio = Number($("ratio").value);
  const asked = drawn();
  const found = await ask("realise", body);
  if (!found.plan) throw new Error(found.reason);
  if (asked !== drawn()) throw new Error("the drawing was changed meanwhile; realise it again");
  [plan, planOf, isPlanShown] = [found.plan, asked, true];
  const picture = $("picture");
  URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(new Blob([found.svg], { type: "image/svg+xml" }));
  const names = roomNames(state.now.rooms, words);
  picture.alt = `Floor plan: ${names.map((name, k) => `${name} ${plan.areas[k]} m²`).join(", ")}`;
  $("shortfall").textContent = found.given_up.join("; ");
  const total = plan.areas.reduce((sum, area) => sum + area, 0);
  say(`A plan of ${total.toFixed(0)} m².`);
});

async function save({ of, format }) {
  try {
    const body = of === "plan" ? { plan: planNow(), format } : { diagram: state.drawing({ all: true }), format };
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await askForFile(body));
    link.download = `${of}.${format}`;
    link.click();
    say(`Saved ${link.download}.`);
  } catch (error) { say(error.message, true); }
}

async function share() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied; it holds the whole drawing.");
  } catch { say("The address of this page holds the whole drawing; copy it from there."); }
}

// -- controls

function relate() {
  relating = board.chosen;
  say("Choose the other room: click it, or take the arrow keys and press R again.");
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
  $("given").textContent = chosen !== null && rooms[chosen].given ? "Open" : "Given";
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
  for (const each of ["drawing", "brief"]) {
    $(each).hidden = each !== name;
    $(`tab-${each}`).setAttribute("aria-selected", String(each === name));
  }
  check();
}

const KEYS = {
  c: () => $("complete").click(), p: () => $("realise").click(), g: toggleGiven,
  a: () => $("add-room").focus(), Delete: removeChosen, Backspace: removeChosen,
  r: () => (relating !== null && relating !== board.chosen && board.chosen !== null
    ? finishRelating(board.chosen) : relate()),
  Escape: () => { relating = null; $("export").open = false; board.choose(null); },
};

function onKey(event) {
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

async function begin() {
  let model;
  try { model = await ask("model"); } catch (error) { return say(error.message, true); }
  words = wordsOf(model);
  relations = model.relations;
  $("model").textContent = `${model.backbone}, up to ${model.most_rooms} rooms`;
  board = new Board($("board"), state, words);
  drawingPanel = new DrawingPanel(state, board, words, relations);
  briefPanel = new BriefPanel(state, words, relations, model.most_rooms);
  board.onChosen = onChosen;
  state.addEventListener("change", () => { show(); check(); });

  const clicks = {
    undo: () => state.undo(), redo: () => state.redo(), share, relate, given: toggleGiven,
    remove: removeChosen, complete, answer: answerBrief, realise: () => realise(),
    again: () => realise(1 + Math.floor(Math.random() * 1000)),
    clear: () => { $("cards").replaceChildren(); state.clear(); },
    "close-plan": () => { isPlanShown = false; show(); },
    "tab-drawing": () => choosePanel("drawing"), "tab-brief": () => choosePanel("brief"),
  };
  for (const [id, does] of Object.entries(clicks)) $(id).addEventListener("click", does);
  for (const button of $("export").querySelectorAll("button")) {
    button.addEventListener("click", () => { $("export").open = false; save(button.dataset); });
  }
  document.addEventListener("keydown", onKey);

  const fragment = location.hash.slice(1);
  if (fragment && state.restore(fragment)) return say("");
  if (fragment) say("The link could not be read; here is an empty drawing.", true);
  else say("Add rooms, relate them, and complete what is open.");
  show();
}

begin();
