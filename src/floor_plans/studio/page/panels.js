// The lists beside the drawing: rooms, relations, and the brief.

import { relationSeen } from "./board.js";
import { key } from "./document.js";
import { $, choice, made, pill, refill, remover, spoken } from "./elements.js";
import { t } from "./labels.js";
import { moreOf } from "./state.js";
import { say } from "./working.js";

/** Names of rooms, numbered where a type has several. */
export function roomNames(rooms, words) {
  const names = rooms.map(({ type }) => (type ? words.get(type).name : t("room")));
  const seen = {};
  return names.map((name) => {
    seen[name] = (seen[name] ?? 0) + 1;
    return names.filter((other) => other === name).length > 1 ? `${name} ${seen[name]}` : name;
  });
}

export class DrawingPanel {
  constructor(state, board, words, relations) {
    Object.assign(this, { state, board, words, relations });
    const types = [["", t("any-room")], ...words.known.map(({ type, name }) => [type, name])];
    this.types = types;
    $("add-room").append(made("option", { value: "-" }, t("add-a-room")),
      ...types.map(([value, text]) => made("option", { value }, text)));
    $("add-room").addEventListener("change", ({ target }) => {
      board.choose(state.addRoom(target.value || null));
      target.value = "-";
    });
    $("add-relation").addEventListener("click", () => this.#addRelation());
  }

  show(wrong) {
    const { rooms, relations } = this.state.now;
    const names = roomNames(rooms, this.words);
    refill($("rooms"), rooms.map((room, k) => made("li", { className: this.board.chosen === k ? "chosen" : "" },
      made("span", { className: "dot", style: `background:${this.words.get(room.type).colour}` }),
      choice(names[k], this.types, room.type ?? "", (type) =>
        this.state.setType(k, type || null)),
      pill(room.given && room.type !== null, names[k], () => this.state.setRoom(k, { given: !room.given && room.type !== null })),
      remover(names[k], () => this.state.removeRoom(k)))));
    const others = names.map((name, k) => [String(k), name]);
    const choices = this.relations.map((each) => [each, spoken(each)]);
    refill($("relations"), relations.flatMap(({ a, b, relation, given }, k) => {
      if (relation === "no-edge" && !given) return [];
      const what = `${names[a]} ${spoken(relation)} ${names[b]}`;
      const moved = (ends) => {
        const next = { a, b, ...ends };
        if (next.a === next.b || this.state.relationOf(next.a, next.b) >= 0) return this.state.set(this.state.now);
        this.state.setRelation(k, { ...next, given: true });
      };
      const className = wrong.has(key(a, b)) ? "wrong" : "";
      const ends = [
        pill(given, what, () => this.state.setRelation(k, { given: !given })),
        remover(what, () => this.state.removeRelation(k)),
      ];
      if (!given) return [made("li", { className }, made("span", { className: "said" }, what), ...ends)];
      return [made("li", { className }, made("span", { className: "three" },
        choice(t("first-room-of", { what }), others, String(a), (room) => moved({ a: Number(room) })),
        choice(t("relation-of", { a: names[a], b: names[b] }), choices, relation, (next) =>
          this.state.setRelation(k, { relation: next, given: true })),
        choice(t("second-room-of", { what }), others, String(b), (room) => moved({ b: Number(room) }))),
      made("span", { className: "space" }), ...ends)];
    }));
    $("add-relation").disabled = rooms.length < 2;
  }

  /** Between the chosen room, or the first that can, and the nearest one it is not related to. */
  #addRelation() {
    const { rooms } = this.state.now;
    const starts = this.board.chosen === null ? rooms.keys() : [this.board.chosen, ...rooms.keys()];
    for (const a of starts) {
      const free = [...rooms.keys()].filter((b) => b !== a && this.state.relationOf(a, b) < 0);
      free.sort((b, c) => distance(rooms[a], rooms[b]) - distance(rooms[a], rooms[c]));
      if (free.length) return relateAsSeen(this.state, a, free[0], this.relations);
    }
  }
}

/** Relate two rooms as they lie on the board. */
export function relateAsSeen(state, a, b, relations) {
  const seen = relationSeen(state.now.rooms[a], state.now.rooms[b]);
  state.relate(a, b, relations.includes(seen) ? seen : relations[0]);
}

const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

/** An object, with a line for each of its keys. */
const pretty = (object) => `{\n${Object.entries(object)
  .map(([name, value]) => ` ${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(",\n")}\n}`;

export class BriefPanel {
  /** `keys`: of a brief, each with its meaning and an example, as its JSON Schema has them. */
  constructor(state, words, relations, mostRooms, keys) {
    Object.assign(this, { state, relations });
    this.types = [["Bedroom", t("any-bedroom")], ...words.known
      .filter(({ type }) => type !== "Bedroom").map(({ type, name }) => [type, name])];
    $("add-count").append(made("option", { value: "" }, t("a-room")),
      ...this.types.map(([value, text]) => made("option", { value }, text)));
    $("add-count").addEventListener("change", ({ target }) => {
      const type = target.value;
      target.value = "";
      if (!state.now.brief.counts.some((each) => each.type === type)) {
        this.#change((brief) => brief.counts.push({ type, how: "exactly", number: 1 }));
      }
    });
    $("add-rule").addEventListener("click", () => this.#change((brief) =>
      brief.rules.push({ quantity: "some", a: "Kitchen", relation: "adjacent", b: "LivingRoom" })));
    $("add-key").append(made("option", { value: "" }, t("a-key")), ...Object.entries(keys)
      .map(([name, { description }]) => made("option", { value: name, title: description }, `${name}: ${description}`)));
    $("add-key").addEventListener("change", ({ target }) => {
      const name = target.value;
      target.value = "";
      this.#change((brief) => {
        try { brief.more = pretty({ ...moreOf(brief.more), [name]: keys[name].examples[0] }); } catch { /* what is written stays */ }
      });
    });
    $("more").addEventListener("change", ({ target }) => this.#change((brief) => { brief.more = target.value; }));
    for (const id of ["connected", "buildable", "keep"]) {
      $(id).addEventListener("change", ({ target }) => this.#change((brief) => { brief[id] = target.checked; }));
    }
    for (const [id, name] of [["least-rooms", "least"], ["most-rooms", "most"]]) {
      $(id).max = mostRooms;
      $(id).addEventListener("change", ({ target }) => this.#change((brief) => {
        brief[name] = Math.min(mostRooms, Math.max(1, Math.round(Number(target.value) || 1)));
        if (brief.least > brief.most) brief[name === "least" ? "most" : "least"] = brief[name];
        if (Number(target.value) > mostRooms) say(t("too-many-rooms", { n: mostRooms }), true);
      }));
    }
  }

  /** `wrong`: keys of the brief that contradict each other. */
  show(wrong) {
    const { brief } = this.state.now;
    const nameOf = Object.fromEntries(this.types);
    const named = (type) => nameOf[type] ?? type;
    $("least-rooms").value = brief.least;
    $("most-rooms").value = brief.most;
    for (const id of ["connected", "buildable", "keep"]) $(id).checked = brief[id];
    if ($("more").value !== brief.more) $("more").value = brief.more;
    const hows = ["exactly", "at least", "at most"].map((how) => [how, t(`how-${how}`)]);
    refill($("counts"), brief.counts.map(({ type, how, number }, k) => made("li", {
      className: wrong.includes(`rooms.${type}`) ? "wrong" : "" },
    choice(t("how-many", { name: named(type) }), hows, how, (next) => this.#change((b) => { b.counts[k].how = next; })),
    made("input", { type: "number", min: 0, max: 20, value: number, ariaLabel: t("number-of", { name: named(type) }),
      on: { change: ({ target }) => this.#change((b) => { b.counts[k].number = Math.max(0, Math.round(Number(target.value) || 0)); }) } }),
    made("span", { className: "what" }, named(type)),
    remover(named(type), () => this.#change((b) => b.counts.splice(k, 1))))));
    const quantities = ["some", "every", "no"].map((each) => [each, t(`quantity-${each}`)]);
    const relations = ["adjacent", ...this.relations.filter((each) => !["no-edge", "adjacent"].includes(each))]
      .map((each) => [each, spoken(each)]);
    refill($("rules"), brief.rules.map((rule, k) => {
      const set = (name) => (value) => this.#change((b) => { b.rules[k][name] = value; });
      return made("li", { className: wrong.includes(`relations[${k}]`) ? "wrong" : "" },
        made("span", { className: "three" },
          choice(t("quantity"), quantities, rule.quantity, set("quantity")),
          choice(t("first-room"), this.types, rule.a, set("a"))),
        choice(t("relation"), relations, rule.relation, set("relation")),
        choice(t("second-room"), this.types, rule.b, set("b")),
        remover(t("the-rule"), () => this.#change((b) => b.rules.splice(k, 1))));
    }));
  }

  #change(edit) { this.state.change((doc) => edit(doc.brief)); }
}
