// Requests to the studio. Every error has a sentence for a message.

const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.hash);
}
const token = sessionStorage.getItem("token");
const headers = {
  "Content-Type": "application/json",
  ...(token ? { Authorization: `Bearer ${token}` } : {}),
};

async function sent(path, body) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, body === undefined
      ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new Error("the studio does not answer; is it still running?");
  }
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({ error: `it failed (${answer.status})` }));
    throw new Error(error);
  }
  return answer;
}

export const ask = async (path, body) => (await sent(path, body)).json();
export const askForFile = async (body) => (await sent("export", body)).blob();

/** Server-sent events: `told` hears of every step, the answer is returned. */
export async function askForEvents(path, body, told) {
  const answer = await sent(path, { ...body, stream: true });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the answer broke off; try again");
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
