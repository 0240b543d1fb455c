// The document: rooms, relations, brief, plot, and what plans are to be; and its text in the address.
//
// room: {type: name or null, given, x, y, r: radius or null}; relation: {a, b, relation, given}, read from room a.
// What is given is kept by completions; what is open is drawn anew.
// plot: corners in metres, y downwards; closed: it is a whole outline; entrance: {side, at: metres from its first
// corner}; north: degrees clockwise from up; ratio: of the free outline. chosen: the number of a plan;
// changes: what is to change of it, as changes.js has it.

import { noChanges, SIDES } from "./changes.js";
import { noPlot } from "./plot.js";

export const EMPTY = () => ({
  rooms: [], relations: [],
  brief: { least: 5, most: 7, counts: [], rules: [], connected: true, buildable: false, keep: false, more: "" },
  plot: noPlot(),
  wish: { source: null, num: 3, candidates: 2, area: null, rules: "default", livable: false },
  chosen: null, changes: noChanges(),
});

/** What plans are of: as was chosen, or else the drawing where there is one of a person, and no brief. */
export function sourceOf({ wish, brief, rooms, chosen }) {
  const isDrawn = rooms.length > 0 && chosen === null && !brief.counts.length && !brief.rules.length && !brief.more;
  return wish.source ?? (isDrawn ? "drawing" : "brief");
}

/** A plot, a brief, and no drawing yet. */
export const EXAMPLE = () => ({
  ...EMPTY(),
  brief: {
    ...EMPTY().brief, least: 6, most: 7,
    counts: [
      { type: "Bedroom", how: "exactly", number: 3 }, { type: "Kitchen", how: "exactly", number: 1 },
      { type: "Bathroom", how: "at least", number: 1 },
    ],
    rules: [{ quantity: "some", a: "Kitchen", relation: "adjacent", b: "LivingRoom" }],
  },
  plot: {
    ...noPlot(), corners: [[0, 0], [11, 0], [11, 9], [0, 9]], closed: true, entrance: { side: 2, at: 5.5 }, north: 0,
  },
  wish: { ...EMPTY().wish, area: 95 },
});

const RELATIONS = [
  "left-above", "left-below", "left-of", "above", "inside", "surrounding", "below", "right-of",
  "right-above", "right-below", "no-edge", "adjacent", "door",
];
const DIRECTED = 10; // the first ones, in which each is the inverse of its mirror image

export const key = (a, b) => `${Math.min(a, b)} ${Math.max(a, b)}`;

/** A text that is the same for a relation and its inverse, said of the other room. */
export function relationKey(a, b, relation) {
  const code = RELATIONS.indexOf(relation);
  return `${key(a, b)} ${a < b || code >= DIRECTED ? code : DIRECTED - 1 - code}`;
}

/** A text that is the same for drawings of the same rooms and relations. */
export function diagramKey({ rooms, relations }) {
  const drawn = relations.filter(([, , relation]) => relation !== "no-edge");
  return JSON.stringify([rooms, drawn.map((each) => relationKey(...each)).sort()]);
}

/** Rooms that have others inside them. */
export function outerRooms(relations) {
  return new Set(relations.flatMap(({ a, b, relation }) =>
    (relation === "surrounding" ? [a] : relation === "inside" ? [b] : [])));
}

// Packed, the document is a list of lists, half as long as its JSON.

export const pack = ({ rooms, relations, brief, plot, wish, chosen, changes }) => [
  rooms.map(({ type, given, x, y, r }) => [type ?? 0, Number(given), x, y, r ?? 0]),
  relations.map(({ a, b, relation, given }) => [a, b, RELATIONS.indexOf(relation), Number(given)]),
  brief, plot, wish, chosen, changes,
];

/** The document that was packed; throws an error for anything that `pack` does not give. */
export function unpack([rooms, relations, brief, plot = {}, wish = {}, chosen = null, changes = {}]) {
  if (!(isList(rooms, isRoom) && isList(relations, isRelation(rooms.length)))) throw new Error();
  if (!(fits(brief, OF_BRIEF) && fits(plot, OF_PLOT) && fits(wish, OF_WISH) && fits(changes, OF_CHANGES))) throw new Error();
  if (new Set(relations.map(([a, b]) => key(a, b))).size !== relations.length) throw new Error();
  const empty = EMPTY();
  const whole = { ...empty.plot, ...plot };
  if (whole.closed && whole.corners.length < 3) throw new Error();
  if (whole.entrance && whole.entrance.side >= whole.corners.length) throw new Error();
  return {
    rooms: rooms.map(([type, given, x, y, r]) => ({ type: type || null, given: Boolean(given), x, y, r: r || null })),
    relations: relations.map(([a, b, code, given]) => ({ a, b, relation: RELATIONS[code], given: Boolean(given) })),
    brief: { ...empty.brief, ...brief }, plot: whole, wish: { ...empty.wish, ...wish },
    chosen: Number.isInteger(chosen) ? chosen : null, changes: { ...empty.changes, ...changes },
  };
}

/** For the address: without the plan that is chosen, which no link holds. */
export function encode(document) {
  const bytes = new TextEncoder().encode(JSON.stringify(pack({ ...document, chosen: null }).slice(0, 5)));
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

export function decode(fragment) {
  const text = atob(fragment.replace(/-/g, "+").replace(/_/g, "/"));
  return unpack(JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)))));
}

const MOST_ROOMS = 64; // that the studio takes
const FAR = 1e6;

const isWord = (value) => typeof value === "string";
const isNear = (value) => Number.isFinite(value) && Math.abs(value) < FAR;
const isWhole = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
const isBoolean = (value) => typeof value === "boolean";
export const isList = (value, isItem, most = MOST_ROOMS ** 2) =>
  Array.isArray(value) && value.length <= most && value.every(isItem);
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isRoom = (room, k) => Array.isArray(room) && k < MOST_ROOMS && (isWord(room[0]) || room[0] === 0)
  && room.slice(2, 5).length === 3 && room.slice(2, 5).every(isNear) && room[4] >= 0;
const isRelation = (n) => (relation) => Array.isArray(relation) && relation[0] !== relation[1]
  && isWhole(relation[0], 0, n - 1) && isWhole(relation[1], 0, n - 1) && isWhole(relation[2], 0, RELATIONS.length - 1);

// Keys may be left out, and others are of no meaning.

const OF_BRIEF = {
  least: (n) => isWhole(n, 1, MOST_ROOMS), most: (n) => isWhole(n, 1, MOST_ROOMS),
  counts: (list) => isList(list, (each) => isObject(each) && [each.type, each.how].every(isWord)
    && isWhole(each.number, 0, MOST_ROOMS)),
  rules: (list) => isList(list, (each) => isObject(each)
    && [each.quantity, each.a, each.relation, each.b].every(isWord)),
  connected: isBoolean, buildable: isBoolean, keep: isBoolean, more: isWord,
};
const OF_PLOT = {
  corners: (list) => isList(list, (corner) => Array.isArray(corner) && corner.length === 2 && corner.every(isNear), MOST_ROOMS),
  closed: isBoolean,
  entrance: (value) => value === null || (isObject(value) && isWhole(value.side, 0, MOST_ROOMS) && isNear(value.at)),
  north: (value) => value === null || isNear(value), ratio: (value) => value === null || (isNear(value) && value > 0),
};
const OF_WISH = {
  source: (value) => [null, "brief", "drawing"].includes(value), num: (n) => isWhole(n, 1, 6),
  candidates: (n) => isWhole(n, 1, 4), area: (value) => value === null || (isNear(value) && value > 0),
  rules: (value) => ["default", "irc", "none"].includes(value), livable: isBoolean,
};
const isTable = (isKey, isItem) => (value) => isObject(value)
  && Object.entries(value).every(([name, each]) => isKey(name) && isItem(each));
const isRoomNumber = (text) => isWhole(Number(text), 0, MOST_ROOMS);
const OF_CHANGES = {
  of: (value) => value === null || Number.isInteger(value), rooms: (n) => isWhole(n, 0, MOST_ROOMS),
  locked: isTable(isRoomNumber, (keep) => ["place", "size"].includes(keep)),
  areas: isTable(isRoomNumber, (area) => isNear(area) && area > 0),
  moved: isTable((name) => isRoomNumber(name.split(" ")[0]) && SIDES.includes(name.split(" ")[1]), isNear),
};
const fits = (value, kinds) => isObject(value) && Object.entries(value).every(([name, each]) =>
  !Object.hasOwn(kinds, name) || kinds[name](each));
