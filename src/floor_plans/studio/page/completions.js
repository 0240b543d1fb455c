// Completions of the drawing, and diagrams that meet the brief, on cards to choose from.

import { ask, askForEvents } from "./api.js";
import { Card } from "./cards.js";
import { $ } from "./elements.js";
import { t } from "./labels.js";
import { SCALE } from "./state.js";
import { say, showAnswer } from "./working.js";

const NUMBER = 4;
const STEP = 28; // milliseconds that a step of the sampler is shown at least

export class Completions {
  /** `work`: does long work; `realise`: finds a plan of the drawing; `nextSeed`: another one each time. */
  constructor({ state, board, words, work, realise, nextSeed }) {
    Object.assign(this, { state, board, words, work, realise, nextSeed });
  }

  clear() { $("cards").replaceChildren(); }

  complete() {
    return this.work(t("completing"), async (signal) => {
      const given = this.state.drawing(), cards = this.#dealt(NUMBER);
      const places = this.state.now.rooms.map(({ x, y, r }) => [x / SCALE, y / SCALE, r ?? undefined]);
      for (const card of cards) card.begin(given, places);
      let shown = performance.now();
      const body = { given, completions: NUMBER, seed: this.nextSeed(), positions: true };
      const { diagrams, approximate, seconds } = await askForEvents("complete", body, async (revealed) => {
        for (const each of revealed) cards[each.completion].reveal(each);
        await new Promise((done) => setTimeout(done, Math.max(0, shown + STEP - performance.now())));
        shown = performance.now();
      }, { signal });
      await this.#finish(cards, diagrams);
      const about = approximate.length ? t("about", { what: approximate.join("; ") }) : "";
      say(t("completed", { n: diagrams.length, seconds: seconds.toFixed(1), about }));
    });
  }

  answerBrief() {
    return this.work(t("answering"), async (signal) => {
      const { brief, rooms } = this.state.now;
      const given = brief.keep && rooms.length ? { given: this.state.drawing() } : {};
      const body = { brief: this.state.briefAsked(), num: NUMBER, seed: this.nextSeed(), positions: true, ...given };
      this.clear();
      const { diagrams, seconds } = await ask("brief", body, { signal });
      await this.#finish(this.#dealt(diagrams.length), diagrams);
      say(t("answered", { n: diagrams.length, seconds: seconds.toFixed(1) }));
      showAnswer($("cards"));
    });
  }

  #dealt(count) {
    const use = (card) => {
      this.state.adopt(card.diagram);
      this.board.fit();
      for (const each of $("cards").children) each.classList.toggle("chosen", each === card.element);
    };
    const actions = { use, realise: (card) => { use(card); this.realise(); } };
    const cards = Array.from({ length: count }, (_, k) => new Card(k + 1, this.words, actions));
    $("cards").replaceChildren(...cards.map((card) => card.element));
    return cards;
  }

  async #finish(cards, diagrams) {
    await Promise.all(cards.map((card, k) => card.finish(diagrams[k])));
    for (const card of cards) {
      const { rooms, relations } = card.diagram;
      ask("check", { diagram: { rooms, relations }, complete: true })
        .then((found) => card.judge(found), (error) => say(error.message, true));
    }
  }
}
