// Several runs side by side.
import { asJson, patiently } from "./ask.js";
import { make, replace, scrolled, select, short, table, words } from "./elements.js";
import { Drawing } from "./figure.js";
import { keep, known, troubled } from "./main.js";

const OVER = ["step", "round", "time", "communications", "uploads", "sample_gradients", "rows_drawn", "deployments"];

// A run by its number alone, where there is one store.
const named = (run) => (known.stores.length > 1 ? run : run.split(".")[1]);

class Compare {
  constructor(view, query) {
    this.query = query;
    this.problem = null;
    if (!query.get("runs") && known.selected.size > 0) query.set("runs", [...known.selected].join(","));
    this.keys = (query.get("runs") ?? "").split(",").filter(Boolean);
    this.drawing = new Drawing("compare");
    this.axes = make("div", { class: "row" });
    this.below = make("div");
    view.append(make("h1", {}, "Compare"));
    if (this.keys.length === 0) {
      view.append(make("p", {}, "Select runs in the ", make("a", { href: "#/runs" }, "table of runs"),
        ", then come back."));
      return;
    }
    view.append(this.axes, this.drawing.host, this.below);
    this.load();
  }

  set(name, value) {
    if (value) this.query.set(name, value);
    else this.query.delete(name);
    keep("compare", this.query);
    this.load();
  }

  say(words) {
    this.problem = words;
    troubled();
  }

  async load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    const began = performance.now();
    try {
      const asked = new URLSearchParams(this.query);
      const answer = await patiently(() => asJson(`/api/compare?${asked}`), (words) => this.say(words));
      if (this.closed) return;
      this.problem = answer.problem;
      this.controls(answer);
      if (answer.svg) this.drawing.show(answer.svg);
      this.draw(answer);
    } catch (error) {
      this.problem = error.message;
    } finally {
      this.loading = false;
      if (!this.closed) troubled();
    }
    if (this.again && !this.closed) {
      this.again = false;
      setTimeout(() => !this.closed && this.load(), Math.max(300, 3 * (performance.now() - began)));
    }
  }

  controls(answer) {
    const keys = Object.keys(answer.differs).filter((key) => key.startsWith("spec.") && key !== "spec.name")
      .map((key) => key.slice(5));
    const now = JSON.stringify([keys, answer.measured, this.query.toString()]);
    if (now === this.shown) return;
    const focused = this.axes.contains(document.activeElement) ? document.activeElement.closest("label")?.firstChild.textContent : null;
    this.shown = now;
    const options = (first, names) => [["", first], ...names.map((name) => [name, name.replaceAll("_", " ")])];
    const measured = options("the most telling", answer.measured);
    if (answer.measured.length > 1) measured.push([answer.measured.join(","), "all of them"]);
    const get = (name) => this.query.get(name) ?? "";
    this.axes.replaceChildren(
      select("Across", [...options("local step", OVER.slice(1)), ...keys.map((key) => [key, `final, over ${key}`])],
        get("x"), (value) => this.set("x", value)),
      select("Upwards", measured, get("y"), (value) => this.set("y", value)),
      select("A panel for each", options("–", keys), get("panels"), (value) => this.set("panels", value)),
      select("Heat map with", options("–", keys), get("map"), (value) => this.set("map", value)),
      ...this.drawing.buttons(),
      make("a", { href: `/api/compare.csv?runs=${this.keys.join(",")}`, download: "" }, "CSV"),
    );
    if (focused) {
      [...this.axes.querySelectorAll("label")].find((label) => label.firstChild.textContent === focused)?.querySelector("select").focus();
    }
  }

  draw(answer) {
    const names = [...new Set(answer.runs.flatMap((run) => Object.keys(run.final)))];
    const head = ["run", "name", "state", "round", ...names.flatMap((name) => [name, "± sd", "exact"])];
    const rows = answer.runs.map((run) => [
      make("a", { href: `#/run/${run.run}` }, named(run.run)), run.label, run.state, run.round,
      ...names.flatMap((name) => [run.final[name]?.mean, run.final[name]?.sd, run.final[name]?.exact]),
    ]);
    const differs = Object.entries(answer.differs).map(([key, values]) =>
      [key.replace(/^spec\./, ""), ...values.map((value) => (typeof value === "number" ? short(value) : words(value)))]);
    replace(this.below,
      make("h2", {}, "Last records"), scrolled("last records", table(head, rows)),
      make("h2", {}, "What differs"),
      differs.length > 0
        ? scrolled("what differs", table(["", ...answer.runs.map((run) => `run ${named(run.run)}`)], differs))
        : make("p", { class: "quiet" }, answer.runs.length > 1 ? "These runs differ in nothing." : "There is one run."),
    );
  }

  changed(runs) {
    if (this.keys.some((key) => runs.has(key))) this.load();
  }
}

export function open(view, rest, query) {
  const compare = new Compare(view, query);
  return {
    changed: (runs) => compare.changed(runs),
    trouble: () => compare.problem,
    close: () => (compare.closed = true),
  };
}
