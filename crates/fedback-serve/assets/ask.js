// Questions to the server, and what goes wrong with them.

export class Refused extends Error {}

async function refusal(answer) {
  const text = await answer.text();
  try {
    return new Refused(JSON.parse(text).error);
  } catch {
    return new Refused(text || `the server answered ${answer.status}`);
  }
}

async function fetched(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer: is `fedback serve` still running?");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

// What is said while an answer takes long: a store may be locked by somebody.
const SLOW = 5000;

// Does something; where it takes long, says so meanwhile.
export async function patiently(work, say) {
  const timer = setTimeout(() => say("no answer yet: the store may be locked, or is long; still waiting"), SLOW);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}

export const asJson = async (path, options) => (await fetched(path, options)).json();
export const asText = async (path, options) => (await fetched(path, options)).text();

const posted = (body, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
  signal,
});

export const postForText = (path, body) => asText(path, posted(body));

// Every line of an answer as soon as it is there.
export async function* lines(path, body, signal) {
  const answer = await fetched(path, posted(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

// Says when something has changed at the server. A browser holds few connections to a server for all
// of its tabs together, so that one tab listens and tells the others, where that can be arranged.
export function listen(heard, connected) {
  const channel = new BroadcastChannel("fedback");
  channel.onmessage = ({ data }) => {
    if (data.version !== undefined) heard(data.version);
    if (data.connected !== undefined) connected(data.connected);
  };
  const begin = () =>
    new Promise(() => {
      const events = new EventSource("/api/events");
      const tell = (message) => {
        channel.postMessage(message);
        channel.onmessage({ data: message });
      };
      events.addEventListener("changed", (event) => tell({ version: Number(event.data) }));
      events.addEventListener("open", () => tell({ connected: true }));
      events.addEventListener("error", () => tell({ connected: false }));
    });
  if (navigator.locks) navigator.locks.request("fedback-events", begin);
  else begin();
}
