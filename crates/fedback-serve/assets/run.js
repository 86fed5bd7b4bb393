// One run: how it stands, its curves as they grow, and what it was.
import { asJson, asText, patiently } from "./ask.js";
import { make, replace, scrolled, select, short, table, words } from "./elements.js";
import { Drawing } from "./figure.js";
import { keep, known, troubled } from "./main.js";

const OVER = ["step", "round", "time", "communications", "uploads", "sample_gradients", "rows_drawn", "deployments"];
const AXIS = "local step";

class Run {
  constructor(view, key, query) {
    this.key = key;
    this.query = query;
    this.view = view;
    this.problem = null;
    this.drawing = new Drawing(`run-${key}`);
    this.head = make("div");
    this.axes = make("div", { class: "row" });
    this.facts = make("div");
    this.below = make("div");
    view.append(this.head, make("div", { class: "columns" },
      make("section", { "aria-label": "curves" }, this.axes, this.drawing.host), this.facts), this.below);
    this.load();
  }

  set(name, value, usual) {
    if (value && value !== usual) this.query.set(name, value);
    else this.query.delete(name);
    keep(`run/${this.key}`, this.query);
    this.load();
  }

  say(words) {
    this.problem = words;
    troubled();
  }

  // One answer at a time: what changes meanwhile is asked for afterwards.
  async load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    const began = performance.now();
    try {
      const asked = new URLSearchParams();
      for (const name of ["x", "y"]) if (this.query.get(name)) asked.set(name, this.query.get(name));
      const about = await patiently(() => asJson(`/api/runs/${this.key}`), (words) => this.say(words));
      if (this.closed) return;
      this.problem = null;
      this.about = about;
      this.draw(about);
      if (about.shown.final && about.measured.length > 0) {
        const svg = await asText(`/api/runs/${this.key}/figure.svg?${asked}`);
        if (this.closed) return;
        this.drawing.show(svg);
      }
    } catch (error) {
      this.problem = error.message;
    } finally {
      this.loading = false;
      if (!this.closed) troubled();
    }
    // A run with long curves is not read all the time.
    const pause = Math.max(150, 3 * (performance.now() - began));
    if (this.again && !this.closed) {
      this.again = false;
      setTimeout(() => !this.closed && this.load(), pause);
    }
  }

  draw(about) {
    const { shown } = about;
    const link = (text, href) => make("a", { href }, text);
    const from = new URLSearchParams({ from: `run:${this.key}` });
    const more = Object.entries(shown.set).map(([key, value]) => `${key} = ${words(value)}`).join(", ");
    replace(this.head,
      make("p", { class: "small" }, link("All runs", "#/runs"), ` · store ${about.store}`),
      make("h1", {}, `Run ${shown.id}: ${shown.name}`),
      make("p", {},
        make("span", { class: `badge ${shown.state}` }, shown.state), " ",
        make("progress", { max: shown.rounds, value: shown.round, "aria-label": "rounds" }),
        ` round ${shown.round} of ${shown.rounds}, ${short(shown.seconds)} s of work `,
        ...shown.tags.map((tag) => make("span", { class: "tag" }, tag))),
      shown.note ? make("p", {}, shown.note) : "",
      more ? make("p", { class: "quiet small" }, more) : "",
      shown.failure ? make("p", { class: "trouble" }, shown.failure) : "",
      make("p", { class: "row" }, link("What if…", `#/what-if?${from}`),
        link("Compare with others", `#/compare?runs=${[...new Set([this.key, ...known.selected])].join(",")}`)),
    );
    this.controls(about);
    replace(this.facts, ...this.sections(about));
    replace(this.below, ...this.federation(about), make("details", {},
      make("summary", {}, "Spec as it was planned"), scrolled("spec", make("pre", {}, about.text))));
  }

  controls(about) {
    const now = JSON.stringify([about.measured, this.query.toString()]);
    if (now === this.shown || this.axes.contains(document.activeElement)) return;
    this.shown = now;
    const y = this.query.get("y") ?? "";
    const measured = [["", "the most telling"], ...about.measured.map((name) => [name, name])];
    if (about.measured.length > 1) measured.push([about.measured.join(","), "all of them"]);
    this.axes.replaceChildren(
      select("Across", OVER.map((name) => [name, name === "step" ? AXIS : name.replaceAll("_", " ")]),
        this.query.get("x") ?? "step", (value) => this.set("x", value, "step")),
      select("Upwards", measured, y, (value) => this.set("y", value, "")),
      ...this.drawing.buttons(),
      make("a", { href: `/api/runs/${this.key}/curve.csv`, download: "" }, "CSV"),
    );
  }

  sections(about) {
    const { shown } = about;
    const parts = [];
    if (about.exact_pending) parts.push(make("p", { class: "quiet small" }, "The exact curve is being worked out."));
    const last = Object.entries(shown.final ?? {}).filter(([, value]) => value?.mean !== undefined);
    if (last.length > 0) {
      const rows = last.map(([name, value]) => [name, value.mean, value.sd, value.exact ?? null]);
      parts.push(make("h2", {}, `At step ${shown.final.step}`),
        scrolled("last record", table(["", "mean", "± sd", "exact"], rows)));
    }
    if (about.theta.length > 0) {
      const rows = about.theta.map(({ name, theta, stable }) =>
        [name, theta.mean, theta.sd, stable ?? null]);
      parts.push(make("h2", {}, "θ by coordinate"),
        scrolled("theta", table(["coordinate", "mean", "± sd", "stable point"], rows)));
    }
    for (const [name, values] of Object.entries(shown.final ?? {})) {
      if (Array.isArray(values)) parts.push(...this.many(name, values, about));
    }
    if (shown.warnings.length > 0) {
      parts.push(make("h2", {}, "Warnings"),
        make("ul", { class: "plain" }, shown.warnings.map((one) => make("li", {}, one))));
    }
    const facts = [["clients", shown.clients], ["repetitions", shown.repetitions], ["seed", shown.seed],
      ["started", shown.started], ["machine", shown.machine], ["fedback", shown.version],
      ["directory", shown.directory], ["plan", shown.plan],
      ...Object.entries(shown.costs).map(([name, value]) => [name.replaceAll("_", " "), value])];
    parts.push(make("h2", {}, "About"), make("dl", {}, facts.flatMap(([name, value]) =>
      [make("dt", {}, name), make("dd", {}, words(value))])));
    return parts;
  }

  // One value for every client or group, as bars.
  many(name, values, about) {
    const whose = name.includes("_by_group") ? about.groups : about.client_names;
    const means = values.map((value) => value.mean);
    const most = Math.max(...means.filter(Number.isFinite), Number.MIN_VALUE);
    const rows = values.map((value, at) => [whose?.[at] ?? String(at), value.mean, value.sd,
      make("meter", { min: 0, max: most, value: Math.max(0, value.mean ?? 0), "aria-label": `${name} of ${whose?.[at] ?? at}` })]);
    return [make("h2", {}, name.replaceAll("_", " ")),
      scrolled(name, table([name.includes("_by_group") ? "group" : "client", "mean", "± sd", ""], rows, { class: "bars" }))];
  }

  // Who answered, and what went wrong, where clients are real.
  federation(about) {
    const { incidents, absences } = about.shown;
    const parts = [];
    if (about.cohorts.length > 0) {
      const clients = about.shown.clients;
      const names = Array.from({ length: Math.min(clients, 60) }, (_, at) => about.client_names?.[at] ?? `client ${at}`);
      const rows = names.map((name, client) => make("tr", {}, make("th", { scope: "row" }, name),
        about.cohorts.map(({ round, members }) => make("td", {
          class: members.includes(client) ? "cell" : "cell absent",
          title: `${name}, round ${round}: ${members.includes(client) ? "counted" : "not counted"}`,
        }))));
      parts.push(make("h2", {}, "Whose updates counted"),
        make("p", { class: "quiet small" }, `The last ${about.cohorts.length} of ${absences.cohorts} recorded cohorts, ` +
          `rounds ${about.cohorts[0].round} to ${about.cohorts.at(-1).round}; a frame without filling: not counted.`),
        scrolled("cohorts", make("table", { class: "rounds" }, make("tbody", {}, rows))));
    }
    if (absences.clients.length > 0) {
      parts.push(make("h2", {}, "Absent"), scrolled("absent",
        table(["client", "cohorts without it"], absences.clients.map((one) => [one.client, one.cohorts]))));
    }
    if (incidents.length > 0) {
      const rows = incidents.map((one) => [one.client, one.trouble, one.rounds, one.first_round, one.last_round, one.reason]);
      parts.push(make("h2", {}, "Trouble with clients"), scrolled("incidents",
        table(["client", "what", "rounds", "first", "last", "why, the last time"], rows)));
    }
    return parts;
  }

  changed(runs, removed) {
    if (removed.includes(this.key)) {
      this.problem = `run ${this.key} was removed from its store; what is shown is the last that was seen`;
      return;
    }
    if (runs.has(this.key) || this.about?.exact_pending) this.load();
  }
}

export function open(view, [key = ""], query) {
  const run = new Run(view, key, query);
  return {
    changed: (runs, removed) => run.changed(runs, removed),
    trouble: () => run.problem,
    close: () => (run.closed = true),
  };
}
