// The state of the page: the document and its history.

import { noChanges } from "./changes.js";
import { decode, diagramKey, EMPTY, encode, EXAMPLE, isObject, key, relationKey } from "./document.js";
import { t } from "./labels.js";

export const SCALE = 64; // of the board, for the radius of a living room
const MOST_STEPS = 60; // that can be taken back

export class State extends EventTarget {
  constructor() {
    super();
    this.now = EMPTY();
    this.past = [];
    this.future = [];
  }

  /** Change a copy of the document; the former one can be had back. */
  change(edit) {
    const next = structuredClone(this.now);
    edit(next);
    this.past = [...this.past.slice(1 - MOST_STEPS), this.now];
    this.future = [];
    this.set(next);
  }

  set(document) {
    this.now = document;
    history.replaceState(null, "", `#${encode(document)}`);
    this.dispatchEvent(new Event("change"));
  }

  undo() { this.#step(this.past, this.future); }
  redo() { this.#step(this.future, this.past); }
  clear() { this.change((doc) => Object.assign(doc, EMPTY())); }
  example() { this.change((doc) => Object.assign(doc, EXAMPLE())); }

  #step(from, to) {
    if (!from.length) return;
    to.push(this.now);
    this.set(from.pop());
  }

  /** What the address says, after what was there; false if it says nothing that can be read. */
  follow(fragment) {
    let found;
    try { found = decode(fragment); } catch { return false; }
    if (encode(found) === encode(this.now)) return true;
    const isEmpty = encode(this.now) === encode(EMPTY());
    if (!isEmpty) this.past = [...this.past.slice(1 - MOST_STEPS), this.now];
    this.now = found;
    return true;
  }

  // -- the plan that is to change

  changePlan(edit) { this.change((doc) => edit(doc.changes)); }

  /** Two rooms exchange their types; the relations stay. */
  swapRooms(a, b) {
    this.change(({ rooms }) => {
      [rooms[a].type, rooms[b].type] = [rooms[b].type, rooms[a].type];
      rooms[a].r = rooms[b].r = null;
    });
  }

  /** Add a room with its relations to all others, read from it. `place`: x and y on the board. */
  addRelated(type, relations, place) {
    this.change((doc) => {
      const a = doc.rooms.length;
      doc.rooms.push({ type, given: true, ...place, r: null });
      relations.forEach((relation, b) => doc.relations.push({ a, b, relation, given: false }));
    });
  }

  // -- the drawing

  addRoom(type) {
    const k = this.now.rooms.length;
    const angle = k * 2.4, far = 88 * Math.sqrt(k);
    const room = {
      type, given: type !== null,
      x: Math.round(1.2 * far * Math.cos(angle)), y: Math.round(far * Math.sin(angle)), r: null,
    };
    this.change((doc) => doc.rooms.push(room));
    return k;
  }

  setRoom(k, facts) { this.change((doc) => Object.assign(doc.rooms[k], facts)); }

  /** Of another type a room has the size that is usual for it. */
  setType(k, type) { this.setRoom(k, { type, given: type !== null, r: null }); }

  removeRoom(k) {
    const moved = (i) => (i > k ? i - 1 : i);
    this.change((doc) => {
      doc.rooms.splice(k, 1);
      doc.relations = doc.relations
        .filter(({ a, b }) => a !== k && b !== k)
        .map((each) => ({ ...each, a: moved(each.a), b: moved(each.b) }));
      if (k < doc.changes.rooms) doc.changes = noChanges(); // the numbers are those of no plan any more
      doc.changes.areas = Object.fromEntries(Object.entries(doc.changes.areas)
        .filter(([room]) => Number(room) !== k).map(([room, area]) => [moved(Number(room)), area]));
    });
  }

  relationOf(a, b) {
    return this.now.relations.findIndex((r) => (r.a === a && r.b === b) || (r.a === b && r.b === a));
  }

  /** A pair has one relation at most. */
  relate(a, b, relation, given = true) {
    this.change((doc) => {
      const k = this.relationOf(a, b);
      if (k >= 0) doc.relations.splice(k, 1);
      doc.relations.push({ a, b, relation, given });
    });
  }

  setRelation(k, facts) { this.change((doc) => Object.assign(doc.relations[k], facts)); }
  removeRelation(k) { this.change((doc) => doc.relations.splice(k, 1)); }

  /** Take over a diagram of the model; all that was not given is open. */
  adopt(diagram) {
    this.change((doc) => {
      takeOver(doc, diagram);
      doc.changes = noChanges();
    });
  }

  /** Choose a plan: its diagram and its plot are those of the document then. `locked`: rooms that stay so. */
  choose({ id, diagram, plot, locked = {} }) {
    this.change((doc) => {
      if (diagramKey(diagram) !== diagramKey(this.drawing({ all: true }))) takeOver(doc, diagram);
      if (outlineKey(doc.plot) !== outlineKey(plot)) doc.plot = structuredClone(plot);
      doc.chosen = id;
      doc.changes = { ...noChanges(), of: id, rooms: diagram.rooms.length, locked };
    });
  }

  /** As the API takes it: what is given, or all that is drawn. */
  drawing({ all = false } = {}) {
    return {
      rooms: this.now.rooms.map((room) => (all || room.given ? room.type : null)),
      relations: this.now.relations
        .filter((each) => all || each.given)
        .map(({ a, b, relation }) => [a, b, relation]),
    };
  }

  get isComplete() {
    const { rooms, relations } = this.now, n = rooms.length;
    return n > 0 && rooms.every((room) => room.type) && relations.length === (n * (n - 1)) / 2;
  }

  /** The brief in the words of docs/floor_plans/briefs.md. */
  briefAsked() {
    const { least, most, counts, rules, connected, buildable, more } = this.now.brief;
    const asked = { num_rooms: least === most ? least : `${least}-${most}` };
    if (counts.length) {
      asked.rooms = Object.fromEntries(counts.map(({ type, how, number }) =>
        [type, how === "exactly" ? number : `${how} ${number}`]));
    }
    if (rules.length) {
      asked.relations = rules.map(({ quantity, a, relation, b }) => `${quantity} ${a} ${relation} ${b}`);
    }
    if (connected) asked.connected = true;
    if (buildable) asked.buildable = true;
    for (const [name, value] of Object.entries(moreOf(more))) {
      const both = Array.isArray(asked[name]) && Array.isArray(value) ? [...asked[name], ...value] : value;
      asked[name] = isObject(asked[name]) && isObject(value) ? { ...asked[name], ...value } : both;
    }
    return asked;
  }
}

/** Further keys of the brief, which are written as an object. */
export function moreOf(text) {
  let found;
  try { found = text.trim() ? JSON.parse(text) : {}; } catch { /* below */ }
  if (!isObject(found)) throw new Error(t("more-unread"));
  return found;
}

/** A text that is the same for plots of the same outline. */
export const outlineKey = ({ corners, closed, ratio }) => JSON.stringify(closed ? corners : ratio);

/** The same for plots of the same outline, entrance and north. */
export const plotKey = (plot) => JSON.stringify([outlineKey(plot), plot.closed && plot.entrance, plot.north]);

function takeOver(doc, diagram) {
  const given = doc.rooms.length === diagram.rooms.length;
  const kept = new Map(given ? doc.relations.filter((r) => r.given).map((r) => [key(r.a, r.b), r]) : []);
  doc.rooms = diagram.rooms.map((type, k) => ({
    type, given: given && doc.rooms[k].given && doc.rooms[k].type === type,
    x: Math.round(diagram.positions[k][0] * SCALE), y: Math.round(diagram.positions[k][1] * SCALE),
    r: diagram.positions[k][2],
  }));
  const said = new Map(diagram.relations.map(([a, b, relation]) => [key(a, b), { a, b, relation }]));
  doc.relations = [];
  for (let a = 0; a < doc.rooms.length; a++) {
    for (let b = a + 1; b < doc.rooms.length; b++) {
      const found = said.get(key(a, b)) ?? { a, b, relation: "no-edge" };
      const own = kept.get(key(a, b));
      const isSame = own && relationKey(own.a, own.b, own.relation) === relationKey(found.a, found.b, found.relation);
      doc.relations.push(isSame ? own : { ...found, given: false });
    }
  }
}
