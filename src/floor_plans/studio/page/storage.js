// What survives a reload, and the file that holds the same.

import { isObject, pack, unpack } from "./document.js";
import { readPlans, WEIGHTS } from "./plans.js";

const NAME = "discrete-diffusion studio";
const VERSION = 1;

const isStep = (list) => { try { unpack(list); return true; } catch { return false; } };

/** All that is kept, as an object for JSON. */
export const kept = (state, plans, searches) => ({
  studio: NAME, version: VERSION, document: pack(state.now), past: state.past.map(pack), future: state.future.map(pack),
  plans: plans.list, next: plans.next, weights: plans.weights, searches,
});

/** Take over what `kept` gave; throws an error, and changes nothing, for anything else. */
export function restore(data, state, plans) {
  if (!isObject(data) || data.studio !== NAME || data.version !== VERSION) throw new Error();
  const now = unpack(data.document), found = readPlans(data.plans);
  const [past, future] = [data.past, data.future].map((steps) => (steps ?? []).filter(isStep).map(unpack));
  const next = Math.max(data.next || 1, ...found.map(({ id }) => id + 1));
  Object.assign(state, { now, past, future });
  Object.assign(plans, { list: found, next, weights: { ...WEIGHTS, ...numbers(data.weights) } });
  return isObject(data.searches) ? data.searches : {};
}

const numbers = (weights) => Object.fromEntries(Object.entries(weights ?? {}).filter(([name, value]) =>
  name in WEIGHTS && value >= 0 && value <= 10));

/** What this tab was left with, or else what the last one was; null if there is none. */
export function remembered() {
  for (const storage of [() => sessionStorage, () => localStorage]) {
    try {
      const text = storage().getItem(NAME);
      if (text) return JSON.parse(text);
    } catch { /* not allowed here, or not of this page */ }
  }
  return null;
}

/** Keep all for the next visit; false if the browser takes no more, then without the steps back. */
export function remember(data) {
  if (isWritten(JSON.stringify(data))) return true;
  isWritten(JSON.stringify({ ...data, past: [], future: [] }));
  return false;
}

function isWritten(text) {
  try {
    sessionStorage.setItem(NAME, text);
    localStorage.setItem(NAME, text);
    return true;
  } catch { return false; }
}

/** Hand a file to the person. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
