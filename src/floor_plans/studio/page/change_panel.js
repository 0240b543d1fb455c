// The chosen plan as it is changed: rooms locked, walls dragged, areas typed; and the list beside it.

import {
  AT, boxAsked, isAsked, lock, moveWall, obstacle, relationsOfNew, SIDES, STEP, stepped, wall, walls,
} from "./changes.js";
import { diagramKey } from "./document.js";
import { $, choice, made, refill, remover, spoken, svg } from "./elements.js";
import { t } from "./labels.js";
import { roomNames } from "./panels.js";
import { diagramOf } from "./plans.js";
import { rounded } from "./plot.js";
import { outlineKey } from "./state.js";
import { isBusy } from "./working.js";

const EDGE = 0.8; // metres around the plan
const BOARD = 64 / 2.75; // of the drawing, for a metre
const WAYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1], ArrowDown: [1, 1] }; // axis and sense

const metres = (value) => `${value.toFixed(value % STEP < 0.005 || value % STEP > STEP - 0.005 ? 1 : 2)} m`;

export class ChangePanel {
  /** `find`: looks for the nearest plan. */
  constructor(state, plans, words, find) {
    Object.assign(this, { state, plans, words, room: null, drag: null, isOpen: false, view: [0, 0, 1, 1], told: null });
    this.svg = $("plan-board");
    $("change").addEventListener("click", () => this.open(!this.isOpen));
    $("picture").addEventListener("click", () => this.open(true));
    $("find-nearest").addEventListener("click", find);
    $("reset-changes").addEventListener("click", () => this.#reset());
    $("new-type").append(...words.known.map(({ type, name }) => made("option", { value: type }, name)));
    $("new-side").append(...Object.keys(AT).map((each) => made("option", { value: each }, spoken(each))));
    $("add-beside").addEventListener("click", () => this.#addRoom());
    this.svg.addEventListener("pointerdown", (event) => this.#down(event));
    this.svg.addEventListener("pointermove", (event) => this.#move(event));
    this.svg.addEventListener("pointerup", () => this.#up());
    this.svg.addEventListener("pointercancel", () => this.#letGo());
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.show()).observe(this.svg);
  }

  /** The plan that is to change, or null. */
  get found() {
    const { changes, chosen } = this.state.now;
    return changes.of !== null && changes.of === chosen ? this.plans.get(changes.of) : null;
  }

  get #isChanged() {
    const { found } = this, { changes, plot } = this.state.now;
    return isAsked(changes) || diagramKey(diagramOf(found.plan)) !== diagramKey(this.state.drawing({ all: true }))
      || outlineKey(found.plot) !== outlineKey(plot);
  }

  open(isOpen) {
    this.isOpen = isOpen;
    this.show();
  }

  /** Say beside the button what came of the search, of what is there now. */
  tell(sentence, isWrong = false) {
    this.told = { sentence, isWrong, of: this.#now };
    this.show();
  }

  get #now() { return JSON.stringify([this.state.now.changes, this.state.drawing({ all: true }), this.state.now.chosen]); }

  /** What the nearest plan gives up, and which rules it keeps or breaks that the earlier one did not. */
  tellFound(id, earlier) {
    const { rules, givenUp, plan } = this.plans.get(id), said = [];
    const turned = (now) => Object.keys(rules).filter((name) => rules[name] === now && earlier && earlier.rules[name] === !now)
      .map((name) => t(`rule-${name}`)).join(", ");
    if (turned(false)) said.push(t("now-broken", { rules: turned(false) }));
    if (turned(true)) said.push(t("now-kept", { rules: turned(true) }));
    if (givenUp.length) said.push(t("not-had", { what: givenUp.join("; ") }));
    const area = plan.areas.reduce((sum, each) => sum + each, 0).toFixed(0);
    this.tell([t("near-found", { number: id, area }), ...said].join(" "), givenUp.length > 0 || Boolean(turned(false)));
  }

  show() {
    const { found } = this, isShown = Boolean(found) && this.isOpen;
    $("changing").hidden = !found;
    $("change").setAttribute("aria-expanded", String(isShown));
    $("change").textContent = t(isShown ? "end-change" : "change");
    $("change-body").hidden = !isShown;
    $("picture").hidden = isShown;
    if (!isShown) return;
    this.plan = found.plan;
    const own = this.state.now.changes.rooms, { rooms } = this.state.now;
    // the rooms of the plan by number, with the types that the drawing has now; then new ones
    this.types = [...this.plan.rooms.map((type, k) => (k < own ? rooms[k]?.type ?? type : type))];
    this.fresh = rooms.slice(own).map(({ type }) => type);
    this.names = roomNames([...this.types, ...this.fresh].map((type) => ({ type })), this.words);
    if (this.room >= this.types.length) this.room = null;
    this.#draw();
    this.#list();
    const isChanged = this.#isChanged;
    $("find-nearest").disabled = isBusy() || !isChanged;
    $("reset-changes").disabled = !isChanged && !Object.keys(this.state.now.changes.locked).length;
    this.#say(isChanged);
  }

  #say(isChanged) {
    const { changes } = this.state.now;
    const told = this.told?.of === this.#now ? this.told : null;
    const inWay = [...new Set(walls(changes).map(({ room }) => room))].map((room) => this.#inWay(changes, room)).filter(Boolean);
    const broken = Object.entries(this.found.rules).filter(([, kept]) => kept === false).map(([name]) => t(`rule-${name}`));
    $("change-rules").textContent = broken.length ? t("breaks", { rules: broken.join(", ") }) : t("breaks-none");
    $("change-rules").className = broken.length ? "fault" : "kept";
    $("change-said").textContent = told?.sentence ?? inWay[0] ?? t(isChanged ? "find-hint" : "change-hint");
    $("change-said").classList.toggle("fault", told ? told.isWrong : inWay.length > 0);
  }

  #inWay(changes, room) {
    const found = obstacle(this.plan, changes, room), name = this.names[room];
    if (!found) return "";
    return found.beyond ? t("beyond", { name }) : t("in-way", { name, other: this.names[found.locked] });
  }

  // -- what is asked

  #reset() {
    const { id, plot, plan } = this.found;
    this.state.choose({ id, plot, diagram: diagramOf(plan) });
  }

  choose(room) {
    this.room = room;
    this.show();
  }

  #addRoom() {
    const said = $("new-side").value, own = this.state.now.changes.rooms, host = this.room;
    const { x, y } = this.state.now.rooms[host], axis = SIDES.indexOf(AT[said]) % 2, sense = ["left-of", "above"].includes(said) ? -1 : 1;
    const [low, high] = [this.plan.boxes[host][axis], this.plan.boxes[host][axis + 2]];
    const far = Math.round(sense * (high - low) / 2 * BOARD);
    const others = this.fresh.map(() => "no-edge");
    this.state.addRelated($("new-type").value, [...relationsOfNew(this.plan, host, said, own), ...others],
      { x: axis ? x : x + far, y: axis ? y + far : y });
  }

  // -- the list

  #list() {
    const { changes } = this.state.now, own = changes.rooms, all = [...this.types.keys()];
    const rows = all.map((room) => this.#row(room, room < own));
    const added = this.fresh.map((type, k) => made("li", {}, this.#dot(type),
      made("span", { className: "what" }, t("new-room", { name: this.names[all.length + k] })),
      this.#area(own + k, this.names[all.length + k], "", false),
      remover(this.names[all.length + k], () => this.state.removeRoom(own + k))));
    refill($("plan-rooms"), [...rows, ...added]);
    refill($("moves"), walls(changes).map(({ room, side, to }) => {
      const what = t("moved-wall", { wall: this.#wallName(room, side), by: this.#by(room, side, to) });
      return made("li", {}, made("span", { className: "what" }, what), remover(what, () => this.state.changePlan((next) => {
        delete next.moved[wall(room, side)];
      })));
    }));
    const isOwn = this.room !== null && this.room < own;
    $("new-room").hidden = !isOwn;
    if (isOwn) $("add-beside").textContent = t("add-to", { name: this.names[this.room] });
  }

  #row(room, isOwn) {
    const { changes } = this.state.now, name = this.names[room], isChosen = this.room === room;
    const locks = ["", "place", "size"].map((keep) => [keep, t(`lock-${keep || "none"}`)]);
    const row = made("li", { className: isChosen ? "chosen" : "" }, this.#dot(this.types[room]),
      made("button", {
        className: "what", ariaPressed: String(isChosen), on: { click: () => this.choose(isChosen ? null : room) },
      }, name),
      choice(t("lock-room", { name }), locks, changes.locked[room] ?? "", (keep) =>
        this.state.changePlan((next) => lock(next, room, keep))));
    if (isOwn) row.append(this.#area(room, name, this.plan.areas[room], Boolean(changes.locked[room])));
    if (!isChosen || !isOwn || changes.rooms < 2) return row;
    const others = this.names.slice(0, changes.rooms).map((each, k) => [String(k), each]).filter(([k]) => Number(k) !== room);
    row.append(made("span", { className: "under" },
      choice(t("swap-room", { name }), [["", t("swap")], ...others], "", (other) => this.state.swapRooms(room, Number(other)))));
    return row;
  }

  #dot(type) { return made("span", { className: "dot", style: `background:${this.words.get(type).colour}` }); }

  #area(room, name, now, isLocked) {
    const input = made("input", {
      type: "number", min: 1, max: 1000, step: "any", value: this.state.now.changes.areas[room] ?? "", disabled: isLocked,
      placeholder: now === "" ? t("any") : String(rounded(now, 0.1)), ariaLabel: t("area-of", { name }), title: isLocked ? t("is-locked") : "",
      on: { change: ({ target }) => this.state.changePlan(({ areas }) => {
        delete areas[room];
        if (Number(target.value) > 0) areas[room] = Number(target.value);
      }) },
    });
    return made("span", { className: "unit" }, input, "m²");
  }

  #wallName(room, side) { return t(`wall-${side}`, { name: this.names[room] }); }

  #by(room, side, to) {
    const by = rounded(to - this.plan.boxes[room][SIDES.indexOf(side)]);
    return `${by > 0 ? "+" : "−"}${metres(Math.abs(by))}`;
  }

  // -- with the pointer

  #point(event) { return new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse()); }

  #down(event) {
    const { side } = event.target.dataset;
    event.preventDefault();
    if (side && this.room !== null) {
      this.drag = { room: this.room, side, to: this.#place(this.room, side) };
      this.svg.setPointerCapture(event.pointerId);
      return event.target.focus();
    }
    const { x, y } = this.#point(event), { boxes } = this.plan;
    const hit = this.#ordered().reverse().find((room) => boxes[room][0] <= x && x <= boxes[room][2] && boxes[room][1] <= y && y <= boxes[room][3]);
    this.choose(hit ?? null);
  }

  #move(event) {
    if (!this.drag) return;
    const { room, side } = this.drag, at = this.#point(event);
    this.drag.to = stepped(this.plan, this.state.now.changes, { room, side, to: SIDES.indexOf(side) % 2 ? at.y : at.x });
    this.#draw();
    const inWay = this.#inWay(this.#changesNow, room);
    $("change-said").textContent = inWay || t("moved-wall", { wall: this.#wallName(room, side), by: this.#by(room, side, this.drag.to) });
    $("change-said").classList.toggle("fault", Boolean(inWay));
  }

  #up() {
    const { drag } = this;
    this.drag = null;
    if (drag && drag.to !== this.#place(drag.room, drag.side)) this.#moveTo(drag);
  }

  #letGo() {
    this.drag = null;
    this.show();
  }

  #moveTo(moved) { this.state.changePlan((next) => moveWall(next, this.plan, moved)); }

  // -- with keys: arrows move a wall, Delete puts it back

  #key(event) {
    const { side } = event.target.dataset;
    if (!side || this.room === null) return;
    const room = this.room, [axis, sense] = WAYS[event.key] ?? [];
    if (event.key === "Escape" && this.drag) this.#letGo();
    else if (event.key === "Delete" || event.key === "Backspace") {
      this.state.changePlan((next) => { delete next.moved[wall(room, side)]; });
    } else if (axis === SIDES.indexOf(side) % 2) {
      const to = this.#place(room, side) + sense * STEP * (event.shiftKey ? 5 : 1);
      this.#moveTo({ room, side, to: stepped(this.plan, this.state.now.changes, { room, side, to }) });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Where a wall is to be. */
  #place(room, side) {
    return boxAsked(this.plan.boxes[room], this.#changesNow, room)[SIDES.indexOf(side)];
  }

  /** With the wall that is being dragged. */
  get #changesNow() {
    const { changes } = this.state.now;
    if (!this.drag) return changes;
    return { ...changes, moved: { ...changes.moved, [wall(this.drag.room, this.drag.side)]: this.drag.to } };
  }

  // -- the picture

  /** Rooms, those on top last: smaller ones cut larger ones. */
  #ordered() {
    const size = ([x0, y0, x1, y1]) => (x1 - x0) * (y1 - y0), { boxes } = this.plan;
    return [...boxes.keys()].sort((a, b) => size(boxes[b]) - size(boxes[a]) || b - a);
  }

  #draw() {
    const { boxes, boundary, doors = [] } = this.plan, { changes } = this.state.now;
    const corners = [...(boundary ?? []), ...boxes.flatMap(([x0, y0, x1, y1]) => [[x0, y0], [x1, y1]])];
    const [low, high] = [Math.min, Math.max].map((most) => [0, 1].map((axis) => most(...corners.map((corner) => corner[axis]))));
    const size = [0, 1].map((axis) => high[axis] - low[axis] + 2 * EDGE);
    this.svg.setAttribute("viewBox", [low[0] - EDGE, low[1] - EDGE, ...size].join(" "));
    const px = Math.max(size[0] / (this.svg.clientWidth || 480), size[1] / (this.svg.clientHeight || 380)); // metres of a pixel
    const parts = [];
    if (boundary) parts.push(svg("polygon", { points: boundary.map((corner) => corner.join(",")).join(" "), class: "outline" }));
    const rect = ([x, y, x1, y1], facts) => svg("rect", { x, y, width: x1 - x, height: y1 - y, ...facts });
    for (const room of this.#ordered()) {
      const isLocked = changes.locked[room];
      parts.push(rect(boxes[room], { class: room === this.room ? "floor chosen" : "floor", fill: this.words.get(this.types[room]).colour }));
      if (isLocked) parts.push(rect(boxes[room], { class: `locked ${isLocked}` }));
    }
    for (const { from, to } of doors) parts.push(svg("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: "door" }));
    if (this.room !== null) parts.push(rect(boxes[this.room], { class: "around" }));
    for (const room of this.#ordered()) parts.push(...this.#words(room, px));
    const moved = new Set([...walls(changes).map(({ room }) => room), ...(this.drag ? [this.drag.room] : [])]);
    for (const room of moved) parts.push(rect(boxAsked(boxes[room], this.#changesNow, room), { class: "asked" }));
    if (this.room !== null && changes.locked[this.room] !== "place") parts.push(...this.#handles(px));
    const held = this.svg.contains(document.activeElement) ? document.activeElement.dataset.side : null;
    if (this.drag && held) return this.#redraw(parts);
    this.svg.replaceChildren(...parts);
    if (held) this.svg.querySelector(`[data-side="${held}"]`)?.focus();
  }

  /** All but the handle that is dragged, which keeps focus and pointer. */
  #redraw(parts) {
    const held = document.activeElement, same = parts.find((each) => each.dataset.side === held.dataset.side);
    for (const { name, value } of [...same.attributes]) held.setAttribute(name, value);
    for (const each of [...this.svg.children]) if (each !== held) each.remove();
    const place = parts.indexOf(same);
    held.before(...parts.slice(0, place));
    held.after(...parts.slice(place + 1));
  }

  #words(room, px) {
    const [x0, y0, x1, y1] = this.plan.boxes[room], { changes } = this.state.now;
    const [x, y] = this.#middle(room), size = Math.min(12 * px, (x1 - x0) / (0.62 * Math.max(5, this.names[room].length)), (y1 - y0) / 3);
    const area = changes.areas[room] ? `${this.plan.areas[room]} → ${changes.areas[room]} m²` : `${this.plan.areas[room]} m²`;
    const locked = changes.locked[room] ? ` · ${t(`lock-${changes.locked[room]}`)}` : "";
    return [[this.names[room], -0.6], [area + locked, 0.6]].map(([text, line]) => {
      const label = svg("text", { x, y: y + 1.1 * line * size, "font-size": line < 0 ? size : 0.85 * size });
      label.textContent = text;
      return label;
    });
  }

  /** The place of a room that no smaller one covers, nearest to its middle. */
  #middle(room) {
    const { boxes } = this.plan, [x0, y0, x1, y1] = boxes[room], order = this.#ordered();
    const above = order.slice(order.indexOf(room) + 1).map((k) => boxes[k]);
    let best = [(x0 + x1) / 2, (y0 + y1) / 2], least = -Infinity;
    for (const share of [0.5, 0.3, 0.7, 0.2, 0.8]) {
      for (const down of [0.5, 0.3, 0.7, 0.2, 0.8]) {
        const [x, y] = [x0 + share * (x1 - x0), y0 + down * (y1 - y0)];
        const free = Math.min(x - x0, x1 - x, ...above.map(([a, b, c, d]) => Math.max(a - x, x - c, b - y, y - d)));
        if (free > least + 0.2) [best, least] = [[x, y], free];
      }
    }
    return best;
  }

  #handles(px) {
    const room = this.room, changes = this.#changesNow, box = boxAsked(this.plan.boxes[room], changes, room);
    const middle = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2], parts = [];
    SIDES.forEach((side, k) => {
      const upright = k % 2 === 0, at = upright ? [box[k], middle[1]] : [middle[0], box[k]];
      const [wide, high] = (upright ? [9, 26] : [26, 9]).map((pixels) => pixels * px);
      const isMoved = box[k] !== this.plan.boxes[room][k];
      const length = metres(upright ? box[2] - box[0] : box[3] - box[1]);
      const said = isMoved ? `${length}, ${this.#by(room, side, box[k])}` : length;
      parts.push(svg("rect", {
        x: at[0] - wide / 2, y: at[1] - high / 2, width: wide, height: high, rx: 3 * px, class: "handle", "data-side": side,
        tabindex: 0, role: "slider", "aria-label": this.#wallName(room, side), "aria-valuenow": rounded(box[k]), "aria-valuetext": said,
        "aria-orientation": upright ? "horizontal" : "vertical",
      }));
      if (!isMoved) return;
      const label = svg("text", { x: at[0], y: at[1] - high / 2 - 8 * px, "font-size": 12 * px, class: "by" });
      label.textContent = said;
      parts.push(label);
    });
    return parts;
  }
}
