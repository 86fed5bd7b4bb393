// The page: an address for every view, and one list of runs that all views share.
import { asJson, listen } from "./ask.js";
import { make } from "./elements.js";
import * as runsView from "./runs.js";
import * as runView from "./run.js";
import * as compareView from "./compare.js";
import * as whatIfView from "./what-if.js";

const VIEWS = { runs: runsView, run: runView, compare: compareView, "what-if": whatIfView };
const view = document.getElementById("view");
const status = document.getElementById("status");
const troubles = document.getElementById("troubles");

// What is known of the server.
export const known = { version: 0, runs: new Map(), parameters: [], stores: [], selected: new Set() };
let current = null;

// `#/runs?group=algorithm.cohort` as a name, what follows it, and its options.
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "runs", ...rest] = path.split("/");
  return { name: VIEWS[name] ? name : "runs", rest, query: new URLSearchParams(query) };
}

// Changes the address without another step back in the browser.
export function keep(name, query) {
  const text = query.toString();
  history.replaceState(null, "", `#/${name}${text ? `?${text}` : ""}`);
}

export function trouble(words) {
  troubles.replaceChildren(...[words].flat().filter(Boolean)
    .map((text) => make("p", { class: "trouble" }, text)));
}

function open() {
  const { name, rest, query } = address();
  current?.close?.();
  trouble(null);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#/${name === "run" ? "runs" : name}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const titles = { runs: "Runs", run: `Run ${rest[0]}`, compare: "Compare", "what-if": "What if" };
  document.title = `${titles[name]} · fedback`;
  view.replaceChildren();
  current = VIEWS[name].open(view, rest, query);
  troubled();
}

function troubled() {
  const words = known.stores.map((store) => store.trouble).filter(Boolean);
  const own = current?.trouble?.();
  trouble([...words, own]);
}

let asking = false;
let again = false;

// Takes in what has changed since the last time.
export async function refresh() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await asJson(`/api/runs?since=${known.version}`);
    if (answer.whole) known.runs.clear();
    for (const run of answer.runs) {
      const named = answer.parameters.map((key, at) => [key, run.values[at]]);
      run.parameters = Object.fromEntries(named.filter(([, value]) => value !== null));
      known.runs.set(run.run, run);
    }
    for (const run of answer.removed) known.runs.delete(run);
    known.version = answer.version;
    known.parameters = answer.parameters;
    known.stores = answer.stores;
    current?.changed?.(new Set(answer.runs.map((run) => run.run)), answer.removed);
    const unread = known.stores.reduce((sum, store) => sum + store.unread, 0);
    status.textContent = unread ? `${known.runs.size} runs, ${unread} to be read` : `${known.runs.size} runs`;
    troubled();
  } catch (error) {
    trouble(error.message);
  } finally {
    asking = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

export { troubled };

listen(
  (version) => version !== known.version && refresh(),
  (connected) => {
    if (!connected) status.textContent = "not connected; trying again";
    else refresh();
  },
);
addEventListener("hashchange", () => {
  open();
  view.focus({ preventScroll: true });
  scrollTo(0, 0);
});
// Should the tab that listens have been put to sleep.
setInterval(refresh, 20_000);
open();
refresh();
