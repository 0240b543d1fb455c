// Requests to the studio. Every error has a sentence for a message.

import { t } from "./labels.js";

const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.hash);
}
const token = sessionStorage.getItem("token");
const bytes = (text) => String.fromCharCode(...new TextEncoder().encode(text)); // a header has no other letters
const headers = {
  "Content-Type": "application/json",
  ...(token ? { Authorization: bytes(`Bearer ${token}`) } : {}),
};

const EVERY = 700; // milliseconds between two looks at a job

/** The studio did not answer at all. */
export class Unanswered extends Error {}

/** Was ended by the person who began it. */
export class Cancelled extends Error {}

let isAway = false;

/** Look until the studio answers again; the event "studio-back" tells the page. */
async function awaitReturn() {
  if (isAway) return;
  isAway = true;
  while (isAway) {
    await new Promise((done) => setTimeout(done, 3 * EVERY));
    isAway = await fetch("healthz").then(({ ok }) => !ok, () => true);
  }
  dispatchEvent(new Event("studio-back"));
}

async function sent(path, body, { signal, method = body === undefined ? "GET" : "POST" } = {}) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { method, headers, signal, body: body && JSON.stringify(body) });
  } catch {
    if (signal?.aborted) throw new Cancelled();
    awaitReturn();
    throw new Unanswered(t("no-answer"));
  }
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({ error: t("failed", { status: answer.status }) }));
    throw new Error(error);
  }
  return answer;
}

export const ask = async (path, body, options) => (await sent(path, body, options)).json();
export const askForFile = async (body) => (await sent("export", body)).blob();

/** Server-sent events: `told` hears of every step, the answer is returned. */
export async function askForEvents(path, body, told, options) {
  const answer = await sent(path, { ...body, stream: true }, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (options?.signal?.aborted) throw new Cancelled();
    if (done) throw new Error(t("broke-off"));
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [, name, data] = block.match(/^event: (\w+)\ndata: (.*)$/s);
      const found = JSON.parse(data);
      if (name === "error") throw new Error(found.error);
      if (name === "done") return found;
      await told(found);
    }
  }
}

/** The answer of a job. `told` hears how far it is; a job that nobody waits for any more is cancelled. */
export async function jobAnswer(job, told, { signal }) {
  const stopped = () => { sent(`jobs/${job}`, undefined, { method: "DELETE" }).catch(() => {}); };
  signal.addEventListener("abort", stopped, { once: true });
  if (signal.aborted) stopped();
  try {
    for (;;) {
      const state = await ask(`jobs/${job}`, undefined, { signal });
      if (state.status === "done") return state.answer;
      if (state.status === "failed") throw new Error(state.error);
      if (state.status === "cancelled" || signal.aborted) throw new Cancelled();
      told(state);
      await new Promise((done) => setTimeout(done, EVERY));
    }
  } finally { signal.removeEventListener("abort", stopped); }
}
