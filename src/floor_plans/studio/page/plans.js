// The plans that were found: what is kept of each, and their order.

import { diagramKey, isList, isObject } from "./document.js";
import { between, boundaryOf, entranceOf } from "./plot.js";
import { outlineKey } from "./state.js";

export const MOST_PLANS = 24; // that are kept; the oldest that are not pinned go first
const ENOUGH_LIGHT = 0.08; // window per floor that counts in full
const LIVING = 2.75; // metres, about half the width of a living room
const WALL = 1.2; // metres of outer wall that a window takes

/** How much each share counts, 0 to 10. */
export const WEIGHTS = { rules: 10, light: 2, compactness: 2, fill: 2, areas: 2, entrance: 3, south: 2 };

export class Plans extends EventTarget {
  constructor() {
    super();
    this.list = [];
    this.next = 1;
    this.weights = { ...WEIGHTS };
  }

  get(id) { return this.list.find((each) => each.id === id) ?? null; }

  /** True if one of them is of a diagram, on any plot. */
  has(diagram) {
    const asked = diagramKey(diagram);
    return this.list.some((each) => diagramKey(diagramOf(each.plan)) === asked);
  }

  /** Plans of a search, in the place of those that are neither pinned nor chosen; or plans near the plan `of`, to all. */
  add(found, { asked, plot, chosen, of = null }) {
    const kept = this.list.filter((each) => of !== null || each.pinned || each.id === chosen);
    const added = found.map(({ plan, svg, scores, given_up: givenUp, why = [], instead = null, rules = {} }) => ({
      id: this.next++, plan, svg, scores, rules, givenUp, why, instead, asked, plot, of, pinned: false,
    }));
    const isSafe = (each) => each.pinned || each.id === of || each.id === chosen;
    const surplus = kept.filter((each) => !isSafe(each)).slice(0, Math.max(0, kept.length + added.length - MOST_PLANS));
    const left = kept.filter((each) => !surplus.includes(each)), room = Math.max(0, MOST_PLANS - added.length);
    this.set([...(room ? left.slice(-room) : []), ...added]);
    return added;
  }

  set(list) {
    this.list = list;
    this.dispatchEvent(new Event("change"));
  }

  pin(id) { this.set(this.list.map((each) => (each.id === id ? { ...each, pinned: !each.pinned } : each))); }

  weigh(name, weight) {
    this.weights = { ...this.weights, [name]: weight };
    this.dispatchEvent(new Event("change"));
  }

  /** Best first, with `shares` and the `score`, their mean by weight. `plot`: its entrance and north count. */
  ranked(plot) {
    return this.list.map((each) => {
      const shares = sharesOf(each, plot);
      const counted = Object.entries(shares).filter(([, share]) => share !== null);
      const total = counted.reduce((sum, [name]) => sum + this.weights[name], 0);
      const score = counted.reduce((sum, [name, share]) => sum + this.weights[name] * share, 0) / (total || 1);
      return { ...each, shares, score };
    }).sort((one, other) => other.score - one.score || one.id - other.id);
  }
}

/** The rooms of a plan's diagram; those that were added to it, as a hall is, are not in it. */
export function diagramOf({ rooms, relations, boxes, added = [] }) {
  const own = [...rooms.keys()].filter((k) => !added.includes(k));
  const at = new Map(own.map((k, place) => [k, place]));
  return {
    rooms: own.map((k) => rooms[k]),
    relations: relations.filter(([a, b]) => at.has(a) && at.has(b)).map(([a, b, said]) => [at.get(a), at.get(b), said]),
    positions: own.map((k) => {
      const [x0, y0, x1, y1] = boxes[k];
      const place = [(x0 + x1) / 2, (y0 + y1) / 2, Math.sqrt((x1 - x0) * (y1 - y0)) / 2];
      return place.map((metres) => Number((metres / LIVING).toFixed(3)));
    }),
  };
}

/** True if a plan is of what is drawn now, on the plot that is there now. */
export const isOf = (each, drawing, plot) => diagramKey(diagramOf(each.plan)) === diagramKey(drawing)
  && outlineKey(each.plot) === outlineKey(plot);

/** Shares of 1, the best, by name; null where one says nothing. */
function sharesOf({ plan, scores, givenUp }, plot) {
  return {
    rules: 1 / (1 + scores.num_broken + givenUp.length),
    light: scores.light === null ? null : Math.min(1, scores.light / ENOUGH_LIGHT),
    compactness: scores.compactness, fill: scores.fill, areas: Math.max(0, 1 - scores.area_error),
    entrance: entranceShare(plan, plot), south: southShare(plan, plot.north),
  };
}

/** 1: the front door is where the plot has its entrance; 0: as far away as the plot is wide. */
function entranceShare({ doors = [], boundary }, plot) {
  const wished = entranceOf(plot), outline = boundaryOf(plot);
  if (!wished || !outline || JSON.stringify(boundary) !== JSON.stringify(outline)) return null;
  const front = doors.find(({ rooms }) => rooms.includes("outside"));
  if (!front) return 0;
  const middle = [0, 1].map((axis) => (front.from[axis] + front.to[axis]) / 2);
  const widest = Math.max(...outline.flatMap((a) => outline.map((b) => between(a, b))));
  return Math.max(0, 1 - between(middle, wished) / widest);
}

const WAYS = [[[0, -1], 1], [[1, 0], 2], [[0, 1], 3], [[-1, 0], 0]]; // out of a box, and which of its numbers ends it

/** How far the living room looks south: 1 straight, 0.5 east or west, 0 north alone. */
function southShare({ rooms, boxes }, north) {
  const living = rooms.indexOf("LivingRoom");
  if (north === null || living < 0) return null;
  const turned = ((north + 180) * Math.PI) / 180, south = [Math.sin(turned), -Math.cos(turned)];
  const looks = WAYS.map(([way, end]) => (openWall(boxes, living, way, end) >= WALL
    ? (1 + way[0] * south[0] + way[1] * south[1]) / 2 : 0));
  return Math.max(...looks);
}

/** Metres of a side of a box that lie against no other room's. */
function openWall(boxes, room, way, end) {
  const box = boxes[room], along = way[0] ? 1 : 0;
  let open = box[along + 2] - box[along];
  for (const [k, other] of boxes.entries()) {
    const reaches = way[0] + way[1] > 0 ? other[(end + 2) % 4] <= box[end] + 0.3 && other[end] > box[end] + 0.3
      : other[(end + 2) % 4] >= box[end] - 0.3 && other[end] < box[end] - 0.3;
    if (k !== room && reaches) open -= Math.max(0, Math.min(box[along + 2], other[along + 2]) - Math.max(box[along], other[along]));
  }
  return open;
}

/** Plans of a file or of the browser's memory; throws an error for anything else. */
export function readPlans(list) {
  if (!isList(list, isPlan, 4 * MOST_PLANS)) throw new Error();
  if (new Set(list.map(({ id }) => id)).size !== list.length) throw new Error();
  return list;
}

const isNumbers = (count) => (list) => isList(list, Number.isFinite) && list.length === count;
const isSentences = (list) => isList(list, (sentence) => typeof sentence === "string");
const isPlan = (each) => isObject(each) && Number.isInteger(each.id) && typeof each.svg === "string"
  && isObject(each.plan) && isList(each.plan.rooms, (room) => typeof room === "string")
  && isList(each.plan.boxes, isNumbers(4)) && each.plan.boxes.length === each.plan.rooms.length
  && isList(each.plan.areas, Number.isFinite)
  && isList(each.plan.relations, (one) => isList(one.slice(0, 2), (room) => room in each.plan.rooms) && typeof one[2] === "string")
  && isObject(each.scores) && ["num_broken", "compactness", "fill", "area_error"].every((name) => Number.isFinite(each.scores[name]))
  && isObject(each.rules) && isSentences(each.givenUp) && isSentences(each.why ?? [])
  && (!each.instead || (isList(each.instead.rooms, (room) => room in each.plan.rooms) && typeof each.instead.relation === "string"))
  && isObject(each.plot) && Array.isArray(each.plot.corners) && typeof each.asked === "string";
