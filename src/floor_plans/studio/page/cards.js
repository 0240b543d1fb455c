// Completions side by side, coming out of the noise.

import { key, outerRooms } from "./document.js";
import { made, svg } from "./elements.js";
import { t } from "./labels.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

/** One diagram: rooms at `places` [x, y], in units of a living room's radius. */
export class Card {
  constructor(number, words, actions) {
    this.words = words;
    this.svg = svg("svg", { role: "img" });
    this.text = made("p", {}, t("drawing-now"));
    this.buttons = [
      made("button", { ariaLabel: t("use-completion", { number }), disabled: true, on: { click: () => actions.use(this) } }, t("use")),
      made("button", { ariaLabel: t("realise-completion", { number }), disabled: true, on: { click: () => actions.realise(this) } }, t("realise")),
    ];
    this.element = made("li", {}, this.svg, this.text, made("div", { className: "does" }, ...this.buttons));
  }

  /** The state it begins with: what is given. */
  begin(given, places) {
    this.places = places.map((place) => [...place]);
    this.types = given.rooms;
    this.pairs = new Map();
    const n = given.rooms.length;
    for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) this.pairs.set(key(a, b), null);
    for (const [a, b, relation] of given.relations) this.pairs.set(key(a, b), relation);
    this.fixed = given.rooms.map(Boolean);
    this.types = [...given.rooms];
    this.#build();
  }

  reveal({ room, type, pair, relation }) {
    if (type) this.types[room] = type;
    else this.pairs.set(key(...pair), relation);
    this.#paint();
    this.#place();
  }

  /** The answer: bubbles go where its relations put them. */
  async finish(diagram) {
    if (!this.places) this.begin({ rooms: diagram.rooms, relations: [] }, diagram.positions);
    this.diagram = diagram;
    this.types = diagram.rooms;
    for (const each of this.pairs.keys()) this.pairs.set(each, "no-edge");
    for (const [a, b, relation] of diagram.relations) this.pairs.set(key(a, b), relation);
    this.#paint();
    const from = this.places.map(([x, y], k) => [x, y, this.#radius(k)]), to = diagram.positions;
    this.outer = outerRooms(diagram.relations.map(([a, b, relation]) => ({ a, b, relation })));
    const order = [...to.keys()].sort((a, b) => to[b][2] - to[a][2]); // small ones in front
    for (const k of order) this.svg.insertBefore(this.circles[k], this.labels[0]);
    const began = performance.now(), length = still.matches ? 1 : 450;
    this.text.textContent = t("size", { rooms: diagram.rooms.length, relations: diagram.relations.length });
    for (const button of this.buttons) button.disabled = false;
    for (let share = 0; share < 1;) {
      share = Math.min(1, (performance.now() - began) / length);
      const eased = 1 - (1 - share) ** 3;
      this.places = from.map((place, k) => place.map((value, axis) => value + eased * (to[k][axis] - value)));
      this.#place();
      await new Promise((done) => setTimeout(done, 16));
    }
  }

  /** `found`: of /api/check. */
  judge({ ok, can_be_built: built, contradiction, warning }) {
    this.element.classList.toggle("wrong", !ok);
    const sentence = contradiction?.sentence ?? warning;
    if (!ok) this.text.textContent = sentence;
    else if (built) this.text.textContent += t("can-be-built");
    this.wrong = new Set((contradiction?.pairs ?? []).map((pair) => key(...pair)));
    this.#paint();
  }

  #radius(k) { return this.places[k][2] ?? this.words.get(this.types[k] ?? null).size; }

  #build() {
    this.circles = this.types.map((_, k) => svg("circle", { class: this.fixed[k] ? "given" : "" }));
    this.labels = this.types.map(() => svg("text", {}));
    this.lines = new Map([...this.pairs.keys()].map((each) => [each, svg("line", {})]));
    this.svg.replaceChildren(...this.lines.values(), ...this.circles, ...this.labels);
    this.#paint();
    this.#place();
  }

  #paint() {
    this.types.forEach((type, k) => {
      const word = this.words.get(type ?? null);
      this.circles[k].setAttribute("fill", word.colour);
      this.labels[k].textContent = word.label;
    });
    for (const [pair, line] of this.lines) {
      const relation = this.pairs.get(pair);
      line.setAttribute("class", relation === null ? "open" : this.wrong?.has(pair) ? "wrong" : "");
      const isDrawn = relation !== "no-edge" || this.wrong?.has(pair);
      line.style.display = isDrawn ? "" : "none";
    }
    this.svg.setAttribute("aria-label", this.types.map((type) => this.words.get(type ?? null).name).join(", "));
  }

  #place() {
    let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
    this.places.forEach(([x, y], k) => {
      const bare = this.#radius(k), r = bare + 0.1;
      for (const [name, value] of [["cx", x], ["cy", y], ["r", bare]]) this.circles[k].setAttribute(name, value);
      const high = this.outer?.has(k) ? bare - 0.3 : 0; // above those inside
      for (const [name, value] of [["x", x], ["y", y - high]]) this.labels[k].setAttribute(name, value);
      left = Math.min(left, x - r); right = Math.max(right, x + r);
      top = Math.min(top, y - r); bottom = Math.max(bottom, y + r);
    });
    for (const [pair, line] of this.lines) {
      const [[x1, y1], [x2, y2]] = pair.split(" ").map((k) => this.places[k]);
      for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(name, value);
    }
    this.svg.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
  }
}
