// What is to change of a plan: rooms that are locked, areas, walls that move. Metres, y downwards.
//
// of: the number of the plan; rooms: how many of the drawing are in it, those after them are new;
// locked: "place" or "size" by room; areas: m² by room; moved: metres by "room side".

import { rounded } from "./plot.js";

export const SIDES = ["left", "top", "right", "bottom"]; // in the order of a box
export const STEP = 0.1; // that the studio keeps lengths to
const LEAST_SIDE = 0.5;
const NEAR = 9 * 18 / 256; // metres between rooms that are related, 9 of the 256 pixels of 18 metres
const STRIP = [1.2, 5, 0.4]; // a new room: least width, area in m², most of the room that it is taken from

export const noChanges = () => ({ of: null, rooms: 0, locked: {}, areas: {}, moved: {} });

/** True where there is something to find a plan for. */
export const isAsked = ({ areas, moved }) => Object.keys(areas).length + Object.keys(moved).length > 0;

export const wall = (room, side) => `${room} ${side}`;
export const walls = ({ moved }) => Object.entries(moved).map(([name, to]) => {
  const [room, side] = name.split(" ");
  return { room: Number(room), side, to };
});

/** As the studio takes it beside the plan. */
export const nearAsked = (changes) => ({
  locked: Object.entries(changes.locked).map(([room, keep]) => ({ room: Number(room), keep })),
  areas: changes.areas, moved: walls(changes),
});

/** Lock a room, or let it go (""). What a lock excludes goes: its area, and walls where its place is locked. */
export function lock(changes, room, keep) {
  delete changes.locked[room];
  if (!keep) return;
  changes.locked[room] = keep;
  delete changes.areas[room];
  if (keep === "place") for (const side of SIDES) delete changes.moved[wall(room, side)];
}

export function moveWall(changes, { boxes }, { room, side, to }) {
  if (Math.abs(to - boxes[room][SIDES.indexOf(side)]) < STEP / 2) delete changes.moved[wall(room, side)];
  else changes.moved[wall(room, side)] = to;
}

/** The box that a room is to have: moved walls, and what a locked size takes along. */
export function boxAsked(box, changes, room) {
  const asked = box.map((value, k) => changes.moved[wall(room, SIDES[k])] ?? value);
  if (changes.locked[room] !== "size") return asked;
  return asked.map((value, k) => {
    const other = (k + 2) % 4;
    return asked[k] === box[k] && asked[other] !== box[other] ? rounded(value + asked[other] - box[other]) : value;
  });
}

/** Where a wall goes: whole steps from where it was, and not through the wall across. */
export function stepped({ boxes }, changes, { room, side, to }) {
  const k = SIDES.indexOf(side), from = boxes[room][k];
  const next = rounded(from + Math.round((to - from) / STEP) * STEP);
  if (changes.locked[room] === "size") return next;
  const across = boxAsked(boxes[room], changes, room)[(k + 2) % 4];
  return k < 2 ? Math.min(next, rounded(across - LEAST_SIDE)) : Math.max(next, rounded(across + LEAST_SIDE));
}

const shared = (one, other) => [0, 1].map((axis) =>
  Math.max(0, Math.min(one[axis + 2], other[axis + 2]) - Math.max(one[axis], other[axis]))).reduce((a, b) => a * b);

/** What is seen at once to be in the way of a room's walls: {beyond: true}, {locked: room}, or null. */
export function obstacle({ boxes, boundary }, changes, room) {
  const asked = boxAsked(boxes[room], changes, room);
  if (boundary) {
    const [low, high] = [Math.min, Math.max].map((most) => [0, 1].map((axis) => most(...boundary.map((corner) => corner[axis]))));
    if ([0, 1].some((axis) => asked[axis] < low[axis] - 0.01 || asked[axis + 2] > high[axis] + 0.01)) return { beyond: true };
  }
  const inWay = Object.keys(changes.locked).map(Number).find((other) => other !== room && changes.locked[other] === "place"
    && shared(asked, boxes[other]) > shared(boxes[room], boxes[other]) + 0.01);
  return inWay === undefined ? null : { locked: inWay };
}

// A new room begins as a strip of an earlier one; its relations are read off there.

const SECTORS = [ // relation codes by where the centre of a box lies: rows y, columns x; before, on, within, on, after
  [0, 3, 3, 8, 8], [0, 0, 3, 8, 7], [2, 2, 4, 7, 7], [2, 1, 6, 9, 9], [1, 1, 6, 6, 9],
];
const NAMES = [
  "left-above", "left-below", "left-of", "above", "inside", "surrounding", "below", "right-of", "right-above", "right-below",
];
export const AT = { "left-of": "left", above: "top", "right-of": "right", below: "bottom" };

/** The relation of a box to another one, as the data has it; "no-edge" between rooms that lie apart. */
export function relationOfBoxes(one, other) {
  if ([0, 1].some((axis) => Math.max(one[axis] - other[axis + 2], other[axis] - one[axis + 2]) > NEAR)) return "no-edge";
  if ([0, 1].every((axis) => one[axis] < other[axis] && one[axis + 2] > other[axis + 2])) return "surrounding";
  if ([0, 1].every((axis) => one[axis] >= other[axis] && one[axis + 2] <= other[axis + 2])) return "inside";
  const [column, row] = [0, 1].map((axis) => {
    const centre = (one[axis] + one[axis + 2]) / 2, [low, high] = [other[axis], other[axis + 2]];
    return Number(centre >= low) + Number(centre > low) + Number(centre >= high) + Number(centre > high);
  });
  return NAMES[SECTORS[row][column]];
}

/** Relations of a new room to the first `count` of a plan; it is to lie as `said` to one of them. */
export function relationsOfNew({ boxes }, host, said, count) {
  const k = SIDES.indexOf(AT[said]), axis = k % 2, box = boxes[host];
  const [least, area, most] = STRIP, across = box[axis + 2] - box[axis], along = box[3 - axis] - box[1 - axis];
  const wide = Math.min(most * across, Math.max(least, area / along));
  const strip = [...box];
  strip[(k + 2) % 4] = k < 2 ? box[k] + wide : box[k] - wide;
  return boxes.slice(0, count).map((other, room) => (room === host ? said : relationOfBoxes(strip, other)));
}
