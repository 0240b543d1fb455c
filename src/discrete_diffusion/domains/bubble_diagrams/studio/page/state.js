// The document: rooms, relations and the brief; its history; and its text in the address.
//
// room: {type: name or null, given, x, y, r: radius or null}; relation: {a, b, relation, given}, read from room a.
// What is given is kept by completions; what is open is drawn anew.

const EMPTY = () => ({
  rooms: [], relations: [],
  brief: { least: 5, most: 7, counts: [], rules: [], connected: true, buildable: false, keep: false },
});

const RELATIONS = [
  "left-above", "left-below", "left-of", "above", "inside", "surrounding", "below", "right-of",
  "right-above", "right-below", "no-edge", "adjacent", "door",
];

export class State extends EventTarget {
  constructor() {
    super();
    this.now = EMPTY();
    this.past = [];
    this.future = [];
  }

  /** Change a copy of the document; the former one can be had back. */
  change(edit, { undoable = true } = {}) {
    const next = structuredClone(this.now);
    edit(next);
    if (undoable) {
      this.past = [...this.past.slice(-99), this.now];
      this.future = [];
    }
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

  #step(from, to) {
    if (!from.length) return;
    to.push(this.now);
    this.set(from.pop());
  }

  /** What the address says; false if it says nothing that can be read. */
  restore(fragment) {
    try {
      this.now = decode(fragment);
      this.dispatchEvent(new Event("change"));
      return true;
    } catch {
      return false;
    }
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
  adopt(diagram, scale) {
    this.change((doc) => {
      const given = doc.rooms.length === diagram.rooms.length;
      const kept = new Map(given ? doc.relations.filter((r) => r.given).map((r) => [key(r.a, r.b), r]) : []);
      doc.rooms = diagram.rooms.map((type, k) => ({
        type, given: given && doc.rooms[k].given,
        x: Math.round(diagram.positions[k][0] * scale), y: Math.round(diagram.positions[k][1] * scale),
        r: diagram.positions[k][2],
      }));
      const said = new Map(diagram.relations.map(([a, b, relation]) => [key(a, b), relation]));
      doc.relations = [];
      for (let a = 0; a < doc.rooms.length; a++) {
        for (let b = a + 1; b < doc.rooms.length; b++) {
          doc.relations.push(kept.get(key(a, b))
            ?? { a, b, relation: said.get(key(a, b)) ?? "no-edge", given: false });
        }
      }
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

  /** The brief in the words of docs/briefs.md. */
  briefAsked() {
    const { least, most, counts, rules, connected, buildable } = this.now.brief;
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
    return asked;
  }
}

export const key = (a, b) => `${Math.min(a, b)} ${Math.max(a, b)}`;

/** Rooms that have others inside them. */
export function outerRooms(relations) {
  return new Set(relations.flatMap(({ a, b, relation }) =>
    (relation === "surrounding" ? [a] : relation === "inside" ? [b] : [])));
}

// In the address the document is a list of lists, half as long as its JSON.

function encode({ rooms, relations, brief }) {
  const packed = [
    rooms.map(({ type, given, x, y, r }) => [type ?? 0, Number(given), x, y, r ?? 0]),
    relations.map(({ a, b, relation, given }) => [a, b, RELATIONS.indexOf(relation), Number(given)]),
    brief,
  ];
  const bytes = new TextEncoder().encode(JSON.stringify(packed));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** The document of a link; throws an error for anything that `encode` does not write. */
function decode(fragment) {
  const text = atob(fragment.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const [rooms, relations, brief] = JSON.parse(new TextDecoder().decode(bytes));
  if (!(isList(rooms, isRoom) && isList(relations, isRelation(rooms.length)) && isBrief(brief))) throw new Error();
  if (new Set(relations.map(([a, b]) => key(a, b))).size !== relations.length) throw new Error();
  return {
    rooms: rooms.map(([type, given, x, y, r]) => ({ type: type || null, given: Boolean(given), x, y, r: r || null })),
    relations: relations.map(([a, b, code, given]) => ({ a, b, relation: RELATIONS[code], given: Boolean(given) })),
    brief: { ...EMPTY().brief, ...brief },
  };
}

const MOST_ROOMS = 64; // that the studio takes
const FAR = 1e6;

const isWord = (value) => typeof value === "string";
const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
const isList = (value, isItem, most = MOST_ROOMS ** 2) =>
  Array.isArray(value) && value.length <= most && value.every(isItem);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isRoom = (room, k) => Array.isArray(room) && k < MOST_ROOMS && (isWord(room[0]) || room[0] === 0)
  && room.slice(2, 5).length === 3 && room.slice(2, 5).every((n) => Number.isFinite(n) && Math.abs(n) < FAR)
  && room[4] >= 0;
const isRelation = (n) => (relation) => Array.isArray(relation) && relation[0] !== relation[1]
  && isWhole(relation[0], 0, n - 1) && isWhole(relation[1], 0, n - 1) && isWhole(relation[2], 0, RELATIONS.length - 1);

/** Keys may be left out, and others are of no meaning. */
const OF_BRIEF = {
  least: (n) => isWhole(n, 1, MOST_ROOMS), most: (n) => isWhole(n, 1, MOST_ROOMS),
  counts: (list) => isList(list, (each) => isObject(each) && [each.type, each.how].every(isWord)
    && isWhole(each.number, 0, MOST_ROOMS)),
  rules: (list) => isList(list, (each) => isObject(each)
    && [each.quantity, each.a, each.relation, each.b].every(isWord)),
  ...Object.fromEntries(["connected", "buildable", "keep"].map((name) => [name, (v) => typeof v === "boolean"])),
};
const isBrief = (brief) => isObject(brief) && Object.entries(brief).every(([name, value]) =>
  !Object.hasOwn(OF_BRIEF, name) || OF_BRIEF[name](value));
