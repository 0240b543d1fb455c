// Searches: plans of a brief or a drawing, as a job of the studio, which a reload does not end.

import { ask, jobAnswer, Unanswered } from "./api.js";
import { nearAsked } from "./changes.js";
import { diagramKey, sourceOf } from "./document.js";
import { t } from "./labels.js";
import { diagramOf } from "./plans.js";
import { outlineAsked } from "./plot_panel.js";
import { plotKey } from "./state.js";
import { say, tellProgress } from "./working.js";

/** The body of a request for plans; throws an error where something is missing. `wish`: as of the document. */
export function planBody(state, wish) {
  const { area, rules, num, candidates } = wish, source = sourceOf({ ...state.now, wish });
  const body = { num, rules, ...outlineAsked(state.now.plot), ...(area ? { total_area: area } : {}) };
  if (wish.livable && rules !== "none") body.livable = true;
  if (source === "brief") return { ...body, brief: state.briefAsked(), candidates: num * candidates };
  if (!state.isComplete) throw new Error(t("not-complete"));
  return { ...body, diagram: state.drawing({ all: true }) };
}

/** Begin a search; what there is to know of it until its end. */
export async function begun(state, wish, seed) {
  const asked = planBody(state, wish), plot = structuredClone(state.now.plot);
  const { job } = await ask("plan", { ...asked, seed });
  return { job, asked: JSON.stringify(asked), isOne: wish.num === 1, plot };
}

/** The answer of a search, when it is there. */
async function answerOf(search, { signal, ended }) {
  const heard = ({ status, place, done, total }) => {
    tellProgress(done, total);
    if (status === "waiting") say(t(place ? "waiting" : "waiting-next", { place }));
    else say(total > 1 ? t("job-progress", { done, total }) : t(total ? "looking" : "job-sampling"));
  };
  try {
    const answer = await jobAnswer(search.job, heard, { signal });
    ended();
    return answer;
  } catch (error) {
    if (!(error instanceof Unanswered)) ended();
    throw error;
  }
}

/** Wait for a search and take its plans; the best one, if it may be chosen, or null. Of what was asked before the
 * last change they are listed, and an error says so. */
export async function found(search, { state, plans, signal, ended }) {
  const answer = await answerOf(search, { signal, ended });
  if (!answer.plans.length) throw new Error(t("no-plans", { reason: answer.reason }));
  const { diagram, brief } = JSON.parse(search.asked), drawing = state.drawing({ all: true });
  const isOther = plotKey(search.plot) !== plotKey(state.now.plot) || (diagram
    ? diagramKey(diagram) !== diagramKey(drawing) : JSON.stringify(brief) !== JSON.stringify(state.briefAsked()));
  const current = plans.get(state.now.chosen);
  const isFree = diagram ? !isOther : !drawing.rooms.length
    || (current && diagramKey(diagramOf(current.plan)) === diagramKey(drawing));
  const added = new Set(plans.add(answer.plans, { ...search, chosen: state.now.chosen }).map(({ id }) => id));
  const best = plans.ranked(state.now.plot).find(({ id }) => added.has(id));
  if (isOther) throw new Error(t(diagram ? "changed-meanwhile" : "brief-meanwhile"));
  const area = best.plan.areas.reduce((sum, each) => sum + each, 0).toFixed(0);
  say(search.isOne ? t("plan-found", { area })
    : t("plans-found", { n: added.size, diagrams: answer.num_diagrams }) + (isFree ? "" : t("plans-choose")));
  return isFree ? best : null;
}

// -- near a plan

/** The body of a request for the plan nearest to the one that is to change. */
function nearBody({ now }, { plan }, drawing) {
  const isOther = diagramKey(drawing) !== diagramKey(diagramOf(plan));
  return {
    near: { plan, ...nearAsked(now.changes) }, ...(isOther ? { diagram: drawing } : {}),
    ...outlineAsked(now.plot), rules: now.wish.rules, num: 1,
  };
}

/** Begin a search for the nearest plan; what there is to know of it until its end. */
export async function begunNear(state, plans, seed) {
  if (!state.isComplete) throw new Error(t("not-complete"));
  const drawing = state.drawing({ all: true }), { changes, plot } = structuredClone(state.now);
  const body = nearBody(state, plans.get(changes.of), drawing);
  const { job } = await ask("plan", { ...body, seed });
  return { job, asked: JSON.stringify({ ...body, near: nearAsked(changes) }), plot, near: { changes, drawing } };
}

/** Wait for the nearest plan and take it, with rooms that stay locked; it is one of those to choose from then. */
export async function foundNear(search, { state, plans, signal, ended }) {
  const answer = await answerOf(search, { signal, ended }), { changes, drawing } = search.near;
  if (!answer.plans.length) throw new Error(t("no-near", { reason: answer.reason }));
  const isOther = JSON.stringify(state.now.changes) !== JSON.stringify(changes) || state.now.chosen !== changes.of
    || diagramKey(state.drawing({ all: true })) !== diagramKey(drawing)
    || plotKey({ ...search.plot, north: null }) !== plotKey({ ...state.now.plot, north: null }); // which counts only in other searches
  const earlier = plans.get(changes.of);
  const [{ id, plan }] = plans.add(answer.plans, { ...search, chosen: state.now.chosen, of: changes.of });
  if (isOther) throw new Error(t("near-meanwhile", { number: id }));
  const hall = (of) => of?.added?.at(-1) ?? null; // has the last number, which a new room moves
  const locked = Object.fromEntries(Object.entries(changes.locked).map(([room, keep]) =>
    [Number(room) === hall(earlier?.plan) ? hall(plan) : room, keep]).filter(([room]) => room !== null));
  return { id, earlier, locked };
}
