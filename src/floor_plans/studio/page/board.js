// The drawing: rooms are circles that can be moved, relations are lines.

import cytoscape from "./vendor/cytoscape.esm.min.mjs";
import { key as pair, outerRooms } from "./document.js";
import { spoken } from "./elements.js";

const RADIUS = 54; // of a living room

const STYLE = [
  { selector: "node", style: {
    width: "data(size)", height: "data(size)", "background-color": "data(colour)", label: "data(label)",
    "text-valign": "center", "font-size": 13, color: "#2b3443", "border-width": 1.5,
    "border-color": "#9aa5b5", "border-style": "dashed", "z-index": "data(depth)",
    "underlay-shape": "ellipse",
    "text-wrap": "wrap", "text-max-width": "data(size)",
  } },
  { selector: "node[?given]", style: { "border-style": "solid", "border-width": 3, "border-color": "#2b3443" } },
  { selector: "node[?outer]", style: { "text-valign": "top", "text-margin-y": 26 } },
  { selector: "edge", style: {
    width: 1.5, "line-color": "#b9c3d0", "curve-style": "straight", "line-style": "dashed",
    label: "data(label)", "font-size": 10.5, color: "#6a7688", "text-background-color": "#fff",
    "text-background-opacity": 0.85, "text-background-padding": 2, "arrow-scale": 0.9,
  } },
  { selector: "edge[?given]", style: { width: 2.5, "line-color": "#4d5a6d", "line-style": "solid", color: "#2b3443",
    "target-arrow-shape": "triangle", "target-arrow-color": "#4d5a6d",
  } },
  { selector: "edge[?apart]", style: { "line-style": "dotted", "line-color": "#d5aab2", "target-arrow-shape": "none" } },
  { selector: ".wrong", style: {
    "line-color": "#c23b53", color: "#c23b53", width: 4, "target-arrow-color": "#c23b53", "underlay-color": "#c23b53",
    "underlay-opacity": 0.22, "underlay-padding": 7,
  } },
  { selector: "node.wrong", style: { "border-color": "#c23b53", width: "data(size)" } },
  { selector: "node.chosen", style: { "underlay-color": "#3f63b5", "underlay-opacity": 0.28, "underlay-padding": 7 } },
];

export class Board {
  constructor(element, state, words) {
    this.state = state;
    this.words = words;
    this.chosen = null;
    this.cy = cytoscape({
      container: element, style: STYLE, minZoom: 0.3, maxZoom: 2.5, boxSelectionEnabled: false,
      autounselectify: true,
    });
    this.cy.on("tap", "node", ({ target }) => this.choose(Number(target.id())));
    this.cy.on("tap", ({ target }) => { if (target === this.cy) this.choose(null); });
    this.cy.on("dragfree", "node", ({ target }) => this.#moved(Number(target.id()), target.position()));
    new ResizeObserver(() => { this.cy.resize(); this.fit(); }).observe(element);
    element.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `byKey`: on the way to another one, perhaps. */
  choose(room, { byKey = false } = {}) {
    this.chosen = room;
    this.#mark();
    this.onChosen?.(room, byKey);
  }

  #mark() {
    if (this.chosen >= this.state.now.rooms.length) this.chosen = null;
    this.cy.nodes().forEach((node) => { node.toggleClass("chosen", Number(node.id()) === this.chosen); });
  }

  /** Show the document; `wrong`: pairs that contradict each other. */
  show(wrong) {
    const { rooms, relations } = this.state.now;
    const outer = outerRooms(relations);
    const elements = rooms.map((room, k) => {
      const word = this.words.get(room.type), radius = room.r ?? word.size;
      return {
        group: "nodes", position: { x: room.x, y: room.y },
        data: {
          id: String(k), label: word.label, colour: word.colour, given: room.given,
          size: 2 * RADIUS * radius, depth: Math.round(100 - 20 * radius), outer: outer.has(k),
        },
      };
    });
    for (const { a, b, relation, given } of relations) {
      if (relation === "no-edge" && !given) continue;
      elements.push({
        group: "edges", classes: wrong.has(pair(a, b)) ? "wrong" : "",
        data: {
          id: `${a}-${b}`, source: String(a), target: String(b), given, apart: relation === "no-edge",
          label: given || wrong.has(pair(a, b)) ? spoken(relation) : "",
        },
      });
    }
    const grown = this.cy.nodes().length !== rooms.length;
    this.cy.json({ elements: { nodes: elements.filter((e) => e.group === "nodes"), edges: elements.filter((e) => e.group === "edges") } });
    this.cy.edges().forEach((edge) => {
      edge.toggleClass("wrong", wrong.has(pair(Number(edge.data("source")), Number(edge.data("target")))));
    });
    if (grown || this.#outOfSight()) this.fit();
    this.#mark();
  }

  fit() {
    this.cy.fit(undefined, 28);
    if (this.cy.zoom() > 1.15) { this.cy.zoom(1.15); this.cy.center(); }
  }

  #outOfSight() {
    const seen = this.cy.extent();
    return this.cy.nodes().some((node) => {
      const { x, y } = node.position();
      return x < seen.x1 || x > seen.x2 || y < seen.y1 || y > seen.y2;
    });
  }

  #moved(room, { x, y }) {
    this.state.setRoom(room, { x: Math.round(x), y: Math.round(y) });
  }

  #key(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const rooms = this.state.now.rooms;
    if (!way || !rooms.length) return;
    event.preventDefault();
    if (this.chosen === null) return this.choose(0, { byKey: true });
    const here = rooms[this.chosen];
    if (event.shiftKey) return this.#moved(this.chosen, { x: here.x + 20 * way[0], y: here.y + 20 * way[1] });
    const cost = ({ x, y }) => {
      const along = (x - here.x) * way[0] + (y - here.y) * way[1];
      const aside = Math.abs((x - here.x) * way[1]) + Math.abs((y - here.y) * way[0]);
      return along > 0 ? along + 2 * aside : Infinity;
    };
    const costs = rooms.map((room, k) => (k === this.chosen ? Infinity : cost(room)));
    const best = costs.indexOf(Math.min(...costs));
    if (costs[best] < Infinity) this.choose(best, { byKey: true });
  }
}

/** How room b lies to a on the board, said of a. */
export function relationSeen(a, b) {
  const dx = b.x - a.x, dy = b.y - a.y;
  const across = Math.abs(dx) > 0.45 * Math.abs(dy) ? (dx > 0 ? "left" : "right") : "";
  const down = Math.abs(dy) > 0.45 * Math.abs(dx) ? (dy > 0 ? "above" : "below") : "";
  return across && down ? `${across}-${down}` : across ? `${across}-of` : down;
}
