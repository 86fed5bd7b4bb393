// What if: every key of a spec under a hand, and what theory says of it at once.
import { asJson, lines, postForText } from "./ask.js";
import { make, replace, save, scrolled, select, short, table, words } from "./elements.js";
import { Drawing } from "./figure.js";
import { Form } from "./form.js";
import { keep, troubled } from "./main.js";

// What is asked at once, and what when the hand rests.
const QUICK = ["points", "exact", "check"];
const REST = 500;

class WhatIf {
  constructor(view, query) {
    this.from = query.get("from") ?? "example";
    this.text = query.get("text") ?? "";
    this.set = new Map(query.getAll("set").map((one) => {
      const at = one.indexOf("=");
      return [one.slice(0, at), one.slice(at + 1)];
    }));
    this.y = query.get("y") ?? "";
    this.map = { x: query.get("mx") ?? "strength", y: query.get("my") ?? "" };
    this.sampling = query.get("sampled") !== "no";
    this.turn = 0;
    this.problem = null;
    this.curves = new Drawing("what-if");
    this.factors = new Drawing("factor-per-round");
    this.boundary = new Drawing("boundary");
    this.build(view);
    this.begin();
  }

  build(view) {
    this.origin = make("div", { class: "row" });
    this.form = new Form(this.set, (assignments) => this.change(assignments));
    this.verdict = make("div", { role: "status", "aria-live": "polite" });
    this.cards = make("div", { class: "cards" });
    this.curveBar = make("div", { class: "row" });
    this.note = make("p", { class: "quiet small" });
    this.clients = make("div");
    this.mapBar = make("div", { class: "row" });
    this.mapNote = make("p", { class: "quiet small", role: "status" });
    this.planned = make("div");
    this.results = make("section", { "aria-label": "answers" },
      this.verdict, this.cards, this.curveBar, this.curves.host, this.note,
      make("details", {}, make("summary", {}, "Factor per round over the step size"), this.factors.host),
      make("details", { open: true }, make("summary", {}, "Who drives it"), this.clients),
      make("h2", {}, "Where it settles"), this.mapBar, this.mapNote, this.boundary.host,
      make("h2", {}, "The cheapest setting"), this.planned);
    for (const drawing of [this.factors, this.boundary]) drawing.host.hidden = true;
    view.append(make("h1", {}, "What if"), this.origin,
      make("div", { class: "what" }, this.form.element, this.results));
  }

  async begin() {
    try {
      const { specs } = await asJson("/api/specs");
      const options = specs.map((one) => [one.from, one.name]);
      if (!options.some(([from]) => from === this.from)) {
        options.unshift([this.from, this.from === "text" ? "your own file" : this.from.replace(":", " ")]);
      }
      const file = make("input", { type: "file", accept: ".toml", hidden: true, onchange: (event) => this.read(event) });
      this.origin.replaceChildren(
        select("Spec", options, this.from, (from) => this.reopen(from, "")),
        make("button", { type: "button", onclick: () => file.click() }, "Open a spec…"), file,
        make("button", { type: "button", onclick: () => this.reopen(this.from, this.text) }, "Back to the spec"),
        make("button", { type: "button", class: "main", onclick: () => this.save() }, "Save as spec"),
      );
    } catch (error) {
      this.fail(error);
    }
    this.plan();
    this.ask();
  }

  async read(event) {
    const [file] = event.target.files;
    if (file) this.reopen("text", await file.text());
  }

  reopen(from, text) {
    this.from = from;
    this.text = text;
    this.set.clear();
    this.mapped = false;
    this.boundary.host.hidden = true;
    this.form.clear();
    this.keep();
    this.ask();
  }

  described() {
    return { from: this.from, text: this.text, set: [...this.set].map(([key, value]) => `${key}=${value}`) };
  }

  keep() {
    const query = new URLSearchParams({ from: this.from });
    if (this.text) query.set("text", this.text);
    for (const one of this.described().set) query.append("set", one);
    if (this.y) query.set("y", this.y);
    if (!this.sampling) query.set("sampled", "no");
    if (this.map.x !== "strength") query.set("mx", this.map.x);
    if (this.map.y) query.set("my", this.map.y);
    keep("what-if", query);
  }

  change(assignments) {
    for (const [key, value] of Object.entries(assignments)) {
      if (value === null) this.set.delete(key);
      else this.set.set(key, value);
    }
    this.keep();
    // As often as the screen is drawn; what was asked before is given up.
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.ask();
    });
  }

  fail(error) {
    if (error?.name === "AbortError") return;
    this.problem = error?.message ?? null;
    troubled();
  }

  // The quick parts now, the slow ones when nothing has changed for a moment.
  ask() {
    this.stopped?.abort();
    clearTimeout(this.timer);
    const turn = ++this.turn;
    this.stopped = new AbortController();
    this.results.classList.add("waiting");
    this.follow(QUICK, turn).then(() => {
      if (turn !== this.turn || this.closed) return;
      this.results.classList.remove("waiting");
      this.timer = setTimeout(() => this.slowly(turn), REST);
    });
  }

  async slowly(turn) {
    if (this.problem) return;
    if (this.sampling) await this.follow(["exact", "sampled"], turn);
    if (this.mapped && turn === this.turn) await this.judge(turn);
  }

  async follow(parts, turn, more = {}) {
    try {
      const body = { spec: this.described(), parts, y: this.y || null, ...more };
      for await (const line of lines("/api/what-if", body, this.stopped.signal)) {
        if (turn !== this.turn || this.closed) return;
        this.take(line, parts);
      }
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    }
  }

  take({ part, answer, error, progress, seconds }, parts) {
    if (part === "end") {
      if (error) this.fail(new Error(error));
      return;
    }
    if (part === "spec") {
      this.problem = null;
      troubled();
      this.spec = answer;
      this.form.show(answer);
      this.mapControls();
      return;
    }
    if (part === "points") this.points = answer;
    if (part === "check") this.checked(answer, error);
    // The curve is drawn again with what was sampled, not without it in between.
    const again = part === "exact" && parts.includes("sampled");
    if (part === "exact" && !again) this.drawCurves(answer, error);
    if (part === "sampled") {
      if (progress !== undefined) this.note.textContent = `sampling: ${Math.round(100 * progress)} %`;
      else this.drawCurves(answer, error, seconds);
    }
    if (part === "map") this.mapDrawn(answer, error);
    if (part === "plan") this.planDrawn(answer, error, progress);
  }

  checked(answer, error) {
    if (error) {
      this.verdict.replaceChildren(make("p", { class: "verdict" }, make("span", { class: "badge perhaps" }, "no verdict"), error));
      this.cards.replaceChildren();
      return;
    }
    const { check, svg } = answer;
    const { verdict } = check;
    const kind = { settles: "yes", "does-not-settle": "no" }[verdict] ?? "perhaps";
    this.verdict.replaceChildren(make("p", { class: "verdict" },
      make("span", { class: `badge ${kind}` }, verdict.replaceAll("-", " ")), check.reason));
    const vector = (values) => (values ? `[${values.slice(0, 6).map(short).join(", ")}${values.length > 6 ? ", …" : ""}]` : "–");
    const point = this.points;
    const card = (name, value) => {
      const text = typeof value === "string" ? value : short(value);
      return make("div", { class: "card" }, make("div", { class: "quiet small" }, name),
        make("div", { class: text.length > 16 ? "value long" : "value" }, text));
    };
    this.cards.replaceChildren(
      card("stable point", vector(point?.stable_point)), card("optimal point", vector(point?.optimal_point)),
      card("risk at the stable point", check.risk_stable), card("price of stability", check.price_of_stability),
      card("largest stable step", check.largest_step), card("radius of repeated minimisation", check.minimisation_radius),
      card("margin of gradient steps", check.gradient_margin), card("average sensitivity", check.average_sensitivity),
      card("rounds until near", check.own_steps.rounds), card("error in the long run", check.own_steps.floor));
    const most = Math.max(...check.per_client.map((one) => one.share ?? 0), Number.MIN_VALUE);
    const rows = check.per_client.map((one) => [one.client, one.weight, one.signed_sensitivity ?? one.sensitivity, one.share,
      make("meter", { min: 0, max: most, value: Math.max(0, one.share ?? 0), "aria-label": `share of client ${one.client}` }),
      one.without?.verdict ?? "–"]);
    replace(this.clients, make("p", {}, check.tips),
      scrolled("clients", table(["client", "weight", "sensitivity", "share", "", "without it"], rows, { class: "bars" })));
    this.factors.host.hidden = !svg;
    if (svg) this.factors.show(svg);
  }

  drawCurves(answer, error, seconds) {
    if (error) {
      this.note.textContent = error;
      if (seconds === undefined) this.curves.host.hidden = true;
      return;
    }
    this.curves.host.hidden = !answer.svg;
    if (answer.svg) this.curves.show(answer.svg);
    this.note.textContent = seconds === undefined ? "" : `sampled in ${short(seconds)} s; nothing is recorded`;
    const now = JSON.stringify([answer.measured, answer.shown, this.sampling]);
    if (now === this.curveShown || this.curveBar.contains(document.activeElement)) return;
    this.curveShown = now;
    const sampled = make("input", { type: "checkbox", checked: this.sampling, onchange: (event) => {
      this.sampling = event.target.checked;
      this.keep();
      this.ask();
    } });
    this.curveBar.replaceChildren(
      select("Curves of", answer.measured.map((name) => [name, name]), answer.shown, (y) => {
        this.y = y;
        this.keep();
        this.ask();
      }),
      make("label", { class: "inline" }, sampled, "sample too"), ...this.curves.buttons());
  }

  mapControls() {
    const numbers = this.form.fields.filter((field) => !field.options);
    const names = numbers.map((field) => [field.key, field.label]);
    if (!numbers.some((field) => field.key === this.map.y)) {
      this.map.y = numbers.find((field) => field.key.startsWith("algorithm.step_size"))?.key ?? "";
    }
    if (!numbers.some((field) => field.key === this.map.x)) this.map.x = numbers[0]?.key ?? "";
    const now = JSON.stringify([names, this.map]);
    if (now === this.mapShown) return;
    this.mapShown = now;
    const choose = (which) => (key) => {
      this.map[which] = key;
      this.keep();
      if (this.mapped) this.judge(this.turn);
    };
    this.mapBar.replaceChildren(
      select("Across", names, this.map.x, choose("x")), select("Upwards", names, this.map.y, choose("y")),
      make("button", { type: "button", onclick: () => {
        this.mapped = true;
        this.judge(this.turn);
      } }, "Draw the boundary"), ...this.boundary.buttons());
  }

  async judge(turn) {
    const range = (key) => {
      const { low, high, log, whole, value } = this.form.fields.find((field) => field.key === key);
      return { key, low, high, log: Boolean(log), whole: Boolean(whole), here: value };
    };
    this.mapNote.textContent = "judging…";
    await this.follow(["map"], turn, { map: { x: range(this.map.x), y: range(this.map.y) } });
  }

  mapDrawn(answer, error) {
    this.mapNote.textContent = error ?? Object.entries(answer.counts).map(([name, count]) => `${name}: ${count}`).join(", ");
    this.boundary.host.hidden = Boolean(error);
    if (answer) this.boundary.show(answer.svg);
  }

  plan() {
    const accuracy = make("input", { type: "number", step: "any", min: 0, value: "0.01" });
    this.planNote = make("div", { role: "status" });
    this.planned.replaceChildren(make("div", { class: "row" },
      make("label", {}, "Squared distance to reach and keep", accuracy),
      make("button", { type: "button", onclick: () => {
        this.planNote.replaceChildren(make("p", { class: "quiet" }, "searching…"));
        this.follow(["plan"], this.turn, { accuracy: Number(accuracy.value) });
      } }, "Plan")), this.planNote);
  }

  planDrawn(answer, error, progress) {
    if (progress !== undefined) {
      this.planNote.replaceChildren(make("progress", { max: 1, value: progress, "aria-label": "search" }));
      return;
    }
    if (error || answer.problem) {
      this.planNote.replaceChildren(make("p", {}, error ?? answer.problem));
      return;
    }
    const { plan, set } = answer;
    const take = () => {
      const scheme = set.find((one) => one.startsWith("algorithm.scheme="));
      const own = Object.fromEntries(set.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]));
      if (scheme?.includes("full")) own["algorithm.cohort"] = "";
      for (const key of [...this.set.keys()]) if (key.startsWith("algorithm.step_size.")) this.set.delete(key);
      this.change(own);
    };
    this.planNote.replaceChildren(
      make("p", {}, `E = ${plan.local_steps}, ${words(plan.scheme)}, K = ${plan.cohort}, ${plan.rounds} rounds, ` +
        `${plan.steps} local steps; total cost ${short(plan.total_time)}.`),
      make("button", { type: "button", onclick: take }, "Take this setting"));
  }

  async save() {
    try {
      const text = await postForText("/api/what-if/spec", this.described());
      save("what-if.toml", text, "application/toml");
    } catch (error) {
      this.fail(error);
    }
  }
}

export function open(view, rest, query) {
  const whatIf = new WhatIf(view, query);
  return {
    trouble: () => whatIf.problem,
    close: () => {
      whatIf.closed = true;
      whatIf.stopped?.abort();
      clearTimeout(whatIf.timer);
    },
  };
}
