// Long work: one thing at a time, with its progress, which can be cancelled.

import { Cancelled } from "./api.js";
import { $ } from "./elements.js";
import { t } from "./labels.js";

let cancelling = null;

export const isBusy = () => cancelling !== null;
export const cancel = () => cancelling?.abort();

export function say(sentence, isWrong = false) {
  $("said").textContent = sentence;
  $("said").classList.toggle("wrong", isWrong);
}

/** `done` of `total`; without them it is unknown how much there is. */
export function tellProgress(done, total) {
  if (total) Object.assign($("progress"), { value: done, max: total });
  else $("progress").removeAttribute("value");
}

/** Do `work`, which is given a signal that it is cancelled by; `shown` shows the page. */
export async function working(sentence, work, shown) {
  if (isBusy()) return;
  cancelling = new AbortController();
  say(sentence);
  tellProgress();
  $("progress").hidden = $("cancel").hidden = false;
  shown();
  try { await work(cancelling.signal); } catch (error) {
    const isWanted = error instanceof Cancelled;
    say(isWanted ? t("cancelled") : error.message, !isWanted);
    for (const card of [...$("cards").children]) if (card.querySelector("button:disabled")) card.remove();
  } finally {
    const hadFocus = document.activeElement === $("cancel");
    cancelling = null;
    $("progress").hidden = $("cancel").hidden = true;
    shown();
    if (hadFocus) $("make-plans").focus();
  }
}

const NARROW = matchMedia("(max-width: 820px)"), STILL = matchMedia("(prefers-reduced-motion: reduce)");

/** On a phone the answer is further down. */
export function showAnswer(element) {
  if (NARROW.matches) element.scrollIntoView({ behavior: STILL.matches ? "auto" : "smooth" });
}
