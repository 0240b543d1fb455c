// Searches: plans of a brief or a drawing, as a job of the studio, which a reload does not end.

import { ask, jobAnswer, Unanswered } from "./api.js";
import { diagramKey, sourceOf } from "./document.js";
import { t } from "./labels.js";
import { diagramOf } from "./plans.js";
import { outlineAsked } from "./plot_panel.js";
import { outlineKey } from "./state.js";
import { say, tellProgress } from "./working.js";

/** The body of a request for plans; throws an error where something is missing. `wish`: as of the document. */
export function planBody(state, wish) {
  const { area, rules, num, candidates } = wish, source = sourceOf({ ...state.now, wish });
  const body = { num, rules, ...outlineAsked(state.now.plot), ...(area ? { total_area: area } : {}) };
  if (source === "brief") return { ...body, brief: state.briefAsked(), candidates: num * candidates };
  if (!state.isComplete) throw new Error(t("not-complete"));
  return { ...body, diagram: state.drawing({ all: true }) };
}

/** Begin a search; what there is to know of it until its end. */
export async function begun(state, wish, seed) {
  const asked = planBody(state, wish);
  const { job } = await ask("plan", { ...asked, seed });
  return { job, asked: JSON.stringify(asked), isOne: wish.num === 1, plot: structuredClone(state.now.plot) };
}

/** Wait for a search and take its plans; the best one, if it may be chosen, or null. */
export async function found(search, { state, plans, signal, ended }) {
  let answer;
  const heard = ({ status, place, done, total }) => {
    tellProgress(done, total);
    if (status === "waiting" && place) say(t("waiting", { place }));
    else say(total > 1 ? t("job-progress", { done, total }) : t(status === "working" && !total ? "job-sampling" : "looking"));
  };
  try { answer = await jobAnswer(search.job, heard, { signal }); } catch (error) {
    if (!(error instanceof Unanswered)) ended();
    throw error;
  }
  ended();
  if (!answer.plans.length) throw new Error(t("no-plans", { reason: answer.reason }));
  const { diagram } = JSON.parse(search.asked), drawing = state.drawing({ all: true });
  const isOther = diagram && (diagramKey(diagram) !== diagramKey(drawing) || outlineKey(search.plot) !== outlineKey(state.now.plot));
  const current = plans.get(state.now.chosen);
  const isFree = diagram ? !isOther : !drawing.rooms.length
    || (current && diagramKey(diagramOf(current.plan)) === diagramKey(drawing));
  const added = new Set(plans.add(answer.plans, { ...search, chosen: state.now.chosen }).map(({ id }) => id));
  const best = plans.ranked(state.now.plot).find(({ id }) => added.has(id));
  if (isOther) throw new Error(t("changed-meanwhile"));
  const area = best.plan.areas.reduce((sum, each) => sum + each, 0).toFixed(0);
  say(search.isOne ? t("plan-found", { area })
    : t("plans-found", { n: added.size, diagrams: answer.num_diagrams }) + (isFree ? "" : t("plans-choose")));
  return isFree ? best : null;
}
