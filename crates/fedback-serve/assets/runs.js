// The table of runs: thousands of them, of which only those in sight are elements.
import { make, select, short, words } from "./elements.js";
import { keep, known } from "./main.js";

const HEIGHT = 34;
const SPARE = 12;
const STATES = ["running", "interrupted", "done", "failed", "damaged"];

let shown = null;

const compare = (a, b) => {
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(words(a)).localeCompare(String(words(b)), undefined, { numeric: true });
};

// What a run is found by.
const text = (run) =>
  [
    run.run, run.id, run.name, run.state, run.note, ...(run.tags ?? []).map((tag) => `#${tag}`),
    ...Object.entries(run.parameters).map(([key, value]) => `${key}=${words(value)}`),
  ].join(" ").toLowerCase();

const last = (key) => key.split(".").slice(-2).join(".");

class Runs {
  constructor(view, query) {
    this.query = query;
    this.closed = new Set();
    this.order = [];
    this.search = make("input", {
      type: "search", value: query.get("q") ?? "", placeholder: "name, #tag, cohort=5 …",
      oninput: (event) => this.set("q", event.target.value),
    });
    this.bar = make("div", { class: "row" });
    this.count = make("p", { class: "quiet small", role: "status" });
    this.compare = make("a", { class: "small" });
    this.head = make("tr");
    this.body = make("tbody");
    this.table = make("table", {}, make("thead", {}, this.head), this.body);
    this.scroll = make(
      "div",
      { class: "scroll runs", tabindex: "0", role: "region", "aria-label": "runs" },
      this.table,
    );
    this.scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    view.append(make("h1", {}, "Runs"), this.bar, this.count, this.scroll);
    this.controls();
    this.changed();
  }

  set(key, value) {
    if (value) this.query.set(key, value);
    else this.query.delete(key);
    keep("runs", this.query);
    this.changed();
  }

  controls() {
    const states = [["", "all"], ...STATES.map((state) => [state, state])];
    const groups = [["", "nothing"], ["name", "name"], ["state", "state"], ["tags", "tags"],
      ...known.parameters.map((key) => [key, key])];
    const stores = known.stores.map((store, at) => [String(at), store.path]);
    this.grouped = JSON.stringify([groups, stores]);
    this.bar.replaceChildren(
      make("label", {}, "Find", this.search),
      select("State", states, this.query.get("state") ?? "", (value) => this.set("state", value)),
      select("Group by", groups, this.query.get("group") ?? "", (value) => this.set("group", value)),
      ...(stores.length > 1
        ? [select("Store", [["", "all"], ...stores], this.query.get("store") ?? "",
            (value) => this.set("store", value))]
        : []),
      make("button", { type: "button", onclick: () => this.all() }, "Select all in sight"),
      make("button", { type: "button", onclick: () => this.none() }, "Select none"),
      this.button = make("button", { type: "button", class: "main", onclick: () => this.go() }, "Compare"),
    );
  }

  // Columns: what every run has, parameters that differ, numbers at the end.
  columns() {
    const finals = new Set();
    for (const run of this.order) Object.keys(run.final ?? {}).forEach((name) => finals.add(name));
    const parameters = known.parameters.filter((key) => key !== "seed").slice(0, 24);
    return [
      { key: "id", title: "run", of: (run) => run.id },
      { key: "name", title: "name", of: (run) => run.name },
      { key: "state", title: "state", of: (run) => run.state },
      { key: "progress", title: "progress", of: (run) => (run.rounds ? run.round / run.rounds : 0) },
      ...[...finals].map((name) => ({
        key: `final.${name}`, title: name, of: (run) => run.final?.[name]?.mean, number: true,
      })),
      ...parameters.map((key) => ({ key, title: last(key), full: key, of: (run) => run.parameters[key] })),
      { key: "seconds", title: "seconds", of: (run) => run.seconds, number: true },
      { key: "started", title: "started", of: (run) => run.started },
      { key: "tags", title: "tags", of: (run) => (run.tags ?? []).join(" ") },
    ];
  }

  // What is to be seen, in its order.
  changed() {
    const wanted = (this.query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const [state, store] = [this.query.get("state"), this.query.get("store")];
    const all = [...known.runs.values()];
    this.order = all;
    this.list = this.columns();
    const chosen = all.filter((run) => {
      if (state && run.state !== state) return false;
      if (store && String(run.store) !== store) return false;
      if (wanted.length === 0) return true;
      run.text ??= text(run);
      return wanted.every((word) => run.text.includes(word));
    });
    const sort = this.query.get("sort") ?? "-id";
    const column = this.list.find((one) => one.key === sort.replace(/^-/, "")) ?? this.list[0];
    const sign = sort.startsWith("-") ? -1 : 1;
    const value = new Map(chosen.map((run) => [run, column.of(run)]));
    const missing = (one) => one === null || one === undefined || one === "";
    chosen.sort((a, b) => {
      const [x, y] = [value.get(a), value.get(b)];
      // What is missing comes last in both directions.
      const by = missing(x) || missing(y) ? compare(x, y) : sign * compare(x, y);
      return by || b.store - a.store || b.id - a.id;
    });
    this.order = chosen;
    this.items = this.arranged(chosen);
    const groups = JSON.stringify([[["", "nothing"], ["name", "name"], ["state", "state"],
      ["tags", "tags"], ...known.parameters.map((key) => [key, key])],
      known.stores.map((store, at) => [String(at), store.path])]);
    if (groups !== this.grouped && !this.bar.contains(document.activeElement)) this.controls();
    this.heads(column.key, sign);
    this.draw();
    this.selection();
  }

  // Runs, with a line before each group.
  arranged(runs) {
    const by = this.query.get("group");
    if (!by) return runs.map((run) => ({ run }));
    const of = (run) => {
      if (by === "tags") return (run.tags ?? []).join(" ");
      return ["name", "state"].includes(by) ? run[by] : run.parameters[by];
    };
    const groups = new Map();
    for (const run of runs) {
      const name = words(of(run)) || "–";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(run);
    }
    const sorted = [...groups].sort(([a], [b]) => compare(a, b));
    return sorted.flatMap(([name, own]) => [
      { group: name, runs: own },
      ...(this.closed.has(name) ? [] : own.map((run) => ({ run }))),
    ]);
  }

  heads(sorted, sign) {
    const head = ({ key, title, full, number }) => {
      const order = key === sorted ? (sign > 0 ? "ascending" : "descending") : "none";
      const arrow = key === sorted ? (sign > 0 ? " ↑" : " ↓") : "";
      const next = key === sorted && sign > 0 ? `-${key}` : key;
      return make(
        "th",
        { scope: "col", "aria-sort": order, class: number ? "number" : false },
        make("button", { type: "button", title: full ?? title, "data-key": key,
          onclick: () => this.set("sort", next) }, title + arrow),
      );
    };
    const focused = this.head.contains(document.activeElement) && document.activeElement.dataset.key;
    this.head.replaceChildren(make("th", { scope: "col" }, make("span", { class: "small" }, " ✓ ")),
      ...this.list.map(head));
    if (focused) this.head.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  draw() {
    if (!this.items) return;
    const all = this.items.length;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / HEIGHT) - SPARE);
    const many = Math.ceil((this.scroll.clientHeight || 600) / HEIGHT) + 2 * SPARE;
    const shown = this.items.slice(first, first + many);
    const filler = (rows) =>
      make("tr", { class: "filler", "aria-hidden": "true" },
        make("td", { colspan: this.list.length + 1 }, this.space(rows * HEIGHT)));
    const focus = document.activeElement;
    const focused = this.body.contains(focus) && { row: focus.closest("tr").dataset.row, kind: focus.dataset.kind };
    this.body.replaceChildren(
      ...(first > 0 ? [filler(first)] : []),
      ...shown.map((item, at) => (item.run ? this.row(item.run, first + at) : this.group(item))),
      ...(first + many < all ? [filler(all - first - many)] : []),
    );
    this.table.setAttribute("aria-rowcount", String(all + 1));
    if (focused?.row) {
      const row = this.body.querySelector(`[data-row="${CSS.escape(focused.row)}"]`);
      row?.querySelector(`[data-kind="${focused.kind}"]`)?.focus({ preventScroll: true });
    }
  }

  space(height) {
    const space = make("div");
    space.style.height = `${height}px`;
    return space;
  }

  group({ group, runs }) {
    const closed = this.closed.has(group);
    const toggle = () => {
      if (!this.closed.delete(group)) this.closed.add(group);
      this.changed();
    };
    const by = last(this.query.get("group"));
    const main = this.list.find((column) => column.key.startsWith("final."));
    const values = main ? runs.map(main.of).filter((value) => typeof value === "number") : [];
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const said = values.length ? `, mean ${main.title} ${short(mean)}` : "";
    return make("tr", { class: "group", "data-row": `group ${group}` },
      make("td", { colspan: this.list.length + 1 },
        make("button", { type: "button", "aria-expanded": String(!closed), "data-kind": "group",
          onclick: toggle }, `${closed ? "▸" : "▾"} ${by} ${group}`),
        make("span", { class: "quiet" }, ` ${runs.length} ${runs.length === 1 ? "run" : "runs"}${said}`)));
  }

  row(run, at) {
    const picked = known.selected.has(run.run);
    const pick = (event) => {
      if (event.target.checked) known.selected.add(run.run);
      else known.selected.delete(run.run);
      event.target.closest("tr").classList.toggle("selected", event.target.checked);
      this.selection();
    };
    const cell = ({ key, of }) => {
      const value = of(run);
      if (key === "id") return make("td", {}, make("a", { href: `#/run/${run.run}`, "data-kind": "link" }, String(run.id)));
      if (key === "name") return make("td", { title: run.problem ?? run.note ?? "" }, run.problem ?? run.name);
      if (key === "state") return make("td", {}, make("span", { class: `badge ${run.state}` }, run.state));
      if (key === "progress") return make("td", {}, this.progress(run));
      if (key === "tags") return make("td", {}, (run.tags ?? []).map((tag) => make("span", { class: "tag" }, tag)));
      if (typeof value === "number") return make("td", { class: "number" }, short(value));
      return make("td", { title: words(value) }, words(value));
    };
    return make(
      "tr",
      { "data-row": run.run, "aria-rowindex": at + 2, class: picked ? "selected" : false },
      make("td", {}, make("input", { type: "checkbox", checked: picked, "data-kind": "pick",
        "aria-label": `select run ${run.id}`, onchange: pick })),
      this.list.map(cell),
    );
  }

  progress(run) {
    if (run.state === "damaged") return "–";
    if (run.state === "done" && run.round === run.rounds) return `${run.rounds}`;
    return make("span", {},
      make("progress", { max: run.rounds, value: run.round, "aria-label": `round of run ${run.id}` }),
      ` ${run.round}/${run.rounds}`);
  }

  selection() {
    for (const run of known.selected) if (!known.runs.has(run)) known.selected.delete(run);
    const many = known.selected.size;
    const found = this.order.length;
    const all = known.runs.size;
    this.count.textContent = `${found === all ? all : `${found} of ${all}`} runs, ${many} selected`;
    this.button.disabled = many === 0;
    this.button.textContent = many ? `Compare ${many}` : "Compare";
  }

  all() {
    for (const run of this.order.slice(0, 400)) known.selected.add(run.run);
    this.draw();
    this.selection();
  }

  none() {
    known.selected.clear();
    this.draw();
    this.selection();
  }

  go() {
    location.hash = `#/compare?runs=${[...known.selected].join(",")}`;
  }

  // Up and down go from run to run, whatever of them is an element now.
  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
    const focus = document.activeElement;
    if (!step || !this.body.contains(focus)) return;
    const row = focus.closest("tr").dataset.row;
    const at = this.items.findIndex((item) => (item.run ? item.run.run : `group ${item.group}`) === row);
    const next = Math.max(0, Math.min(this.items.length - 1, at + step));
    event.preventDefault();
    const top = next * HEIGHT;
    if (top < this.scroll.scrollTop + HEIGHT) this.scroll.scrollTop = top - HEIGHT;
    const height = this.scroll.clientHeight - 3 * HEIGHT;
    if (top > this.scroll.scrollTop + height) this.scroll.scrollTop = top - height;
    this.draw();
    const item = this.items[next];
    const name = item.run ? item.run.run : `group ${item.group}`;
    const found = this.body.querySelector(`[data-row="${CSS.escape(name)}"]`);
    (found?.querySelector(`[data-kind="${focus.dataset.kind}"]`) ?? found?.querySelector("a,button"))?.focus({ preventScroll: true });
  }
}

export function open(view, rest, query) {
  shown = new Runs(view, query);
  return { changed: () => shown.changed() };
}
