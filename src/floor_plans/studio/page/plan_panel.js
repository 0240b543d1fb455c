// Plans side by side, the chosen one large, and two beside each other.

import { $, made, refill, spoken } from "./elements.js";
import { percent, t } from "./labels.js";
import { roomNames } from "./panels.js";
import { isOf, WEIGHTS } from "./plans.js";

export class PlanPanel {
  /** `choose`: what happens with a plan that is chosen; `mend`: with another relation that would do. */
  constructor(state, plans, words, choose, mend) {
    Object.assign(this, { state, plans, words, choose, mend, compared: [], pictures: new Map() });
    for (const name of Object.keys(WEIGHTS)) {
      const input = made("input", {
        type: "range", min: 0, max: 10, step: 1, id: `weight-${name}`,
        on: { input: ({ target }) => plans.weigh(name, Number(target.value)) },
      });
      $("weights").append(made("label", {}, made("span", {}, t(`score-${name}`)), input));
    }
    $("even").addEventListener("click", () => { for (const [name, weight] of Object.entries(WEIGHTS)) plans.weigh(name, weight); });
    $("compare").addEventListener("click", () => this.#compare());
    $("end-compare").addEventListener("click", () => $("comparison").close());
  }

  /** The chosen plan if it is of what is drawn now, or null. */
  get current() {
    const found = this.plans.get(this.state.now.chosen);
    return found && isOf(found, this.state.drawing({ all: true }), this.state.now.plot) ? found : null;
  }

  show() {
    const { plot, chosen } = this.state.now, { current } = this;
    const ranked = this.plans.ranked(plot);
    this.#forgetPictures();
    $("plans").hidden = !ranked.length;
    document.body.classList.toggle("has-plans", ranked.length > 0);
    this.compared = this.compared.filter((id) => this.plans.get(id));
    $("compare").disabled = this.compared.length !== 2;
    for (const [name, weight] of Object.entries(this.plans.weights)) {
      const input = $(`weight-${name}`);
      input.value = weight;
      input.closest("label").hidden = !ranked.some((each) => each.shares[name] !== null);
    }
    refill($("variants"), ranked.map((each, place) => this.#card(each, place, current)));
    $("plan").hidden = !current;
    $("stale").hidden = Boolean(current) || !ranked.length;
    $("stale").textContent = this.plans.get(chosen) ? t("plan-stale") : t("plan-choose");
    if (current) this.#large(ranked.find(({ id }) => id === current.id));
  }

  #card(each, place, current) {
    const name = t("plan-number", { number: each.id }), isChosen = each.id === current?.id;
    const picture = made("img", { src: this.#picture(each), alt: "" });
    const compared = made("input", {
      type: "checkbox", checked: this.compared.includes(each.id), ariaLabel: t("compare-plan", { name }),
      on: { change: ({ target }) => {
        this.compared = target.checked ? [...this.compared, each.id].slice(-2) : this.compared.filter((id) => id !== each.id);
        this.show();
      } },
    });
    return made("li", { className: [isChosen && "chosen", each.pinned && "pinned"].filter(Boolean).join(" ") },
      made("button", {
        className: "pick", ariaPressed: String(isChosen),
        ariaLabel: t("choose-plan", { name, place: place + 1, score: percent(each.score), kept: broken(each) }),
        on: { click: () => this.choose(each.id) },
      }, picture, made("strong", {}, `${name} · ${percent(each.score)}`),
      made("span", { className: faults(each) ? "fault" : "kept" }, broken(each))),
      made("div", { className: "does" },
        made("button", {
          className: "pill", ariaPressed: String(each.pinned), ariaLabel: t("pin-plan", { name }), title: t("pin-title"),
          on: { click: () => this.plans.pin(each.id) },
        }, t(each.pinned ? "pinned" : "pin")),
        made("label", {}, compared, t("compare-short"))));
  }

  #large(each) {
    const picture = $("picture");
    picture.src = this.#picture(each);
    picture.alt = t("plan-alt", { rooms: this.#rooms(each.plan) });
    $("plan-name").textContent = t(each.of ? "plan-changed" : "plan-title", {
      number: each.id, of: each.of, area: each.plan.areas.reduce((sum, area) => sum + area, 0).toFixed(0),
    });
    $("scores").replaceChildren(...scoreRows(each));
    const why = each.why ?? []; // a saved plan may be older
    $("given-up").replaceChildren(...[...each.givenUp, ...why].map((sentence) => made("li", {}, sentence)));
    $("given-up-title").hidden = !each.givenUp.length;
    $("mend").replaceChildren(...this.#mending(each));
    const rules = ruleRows(each);
    $("kept-rules").replaceChildren(...rules);
    $("kept-rules-title").hidden = !rules.length;
  }

  /** A button that draws the other relation with which a plan keeps all rules, and looks for it. */
  #mending({ instead, plan }) {
    if (!instead) return [];
    const names = roomNames(plan.rooms.map((type) => ({ type })), this.words);
    const [a, b] = instead.rooms.map((room) => names[room]);
    const text = t("mend", { what: `${a} ${spoken(instead.relation)} ${b}` });
    return [made("button", { className: "wide", on: { click: () => this.mend(instead) } }, text)];
  }

  #rooms(plan) {
    const names = roomNames(plan.rooms.map((type) => ({ type })), this.words);
    return names.map((name, k) => `${name} ${plan.areas[k]} m²`).join(", ");
  }

  #compare() {
    const both = this.plans.ranked(this.state.now.plot).filter(({ id }) => this.compared.includes(id));
    $("both").replaceChildren(...both.map((each) => made("section", {},
      made("h2", {}, t("plan-number", { number: each.id })),
      made("img", { src: this.#picture(each), alt: t("plan-alt", { rooms: this.#rooms(each.plan) }) }),
      made("dl", { className: "scores" }, ...scoreRows(each)),
      made("ul", { className: "faults" }, ...each.givenUp.map((sentence) => made("li", {}, sentence))),
      made("button", {
        className: "primary wide", on: { click: () => { $("comparison").close(); this.choose(each.id); } },
      }, t("choose-this", { number: each.id })))));
    $("comparison").showModal();
  }

  #picture({ id, svg }) {
    if (!this.pictures.has(id)) {
      this.pictures.set(id, URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })));
    }
    return this.pictures.get(id);
  }

  #forgetPictures() {
    for (const [id, url] of this.pictures) {
      if (this.plans.get(id)) continue;
      URL.revokeObjectURL(url);
      this.pictures.delete(id);
    }
  }
}

const faults = ({ scores, givenUp }) => scores.num_broken + givenUp.length;

function broken({ scores, givenUp }) {
  const said = [];
  if (scores.num_broken) said.push(t(scores.num_broken === 1 ? "rule-broken" : "rules-broken", { n: scores.num_broken }));
  if (givenUp.length) said.push(t("gave-up", { n: givenUp.length }));
  return said.length ? said.join(", ") : t("keeps-all");
}

/** Numbers as the studio gives them. */
function scoreRows({ scores, shares }) {
  const said = {
    light: scores.light === null ? null : t("light-is", { share: percent(scores.light, 1) }),
    compactness: scores.compactness.toFixed(2), fill: percent(scores.fill),
    areas: t("areas-are", { share: percent(scores.area_error) }),
    entrance: shares.entrance === null ? null : percent(shares.entrance), south: shares.south === null ? null : percent(shares.south),
  };
  return Object.entries(said).filter(([, value]) => value !== null).map(([name, value]) => made("div", {},
    made("dt", {}, t(`score-${name}`)), made("dd", {}, value, made("meter", {
      min: 0, max: 1, value: shares[name], ariaLabel: t(`score-${name}`),
    }))));
}

/** Rules that apply, broken ones first. */
function ruleRows({ rules }) {
  const judged = Object.entries(rules).filter(([, kept]) => kept !== null).sort((one, other) => one[1] - other[1]);
  return judged.map(([name, kept]) => made("li", { className: kept ? "kept" : "fault" },
    `${kept ? "✓" : "✗"} ${t(`rule-${name}`)}`, made("span", { className: "hidden" }, kept ? "" : t("is-broken"))));
}
