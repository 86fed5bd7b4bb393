// The keys of a spec that a hand can change, with the range of each.

const text = (value) => JSON.stringify(value);

const KINDS = {
  "p-fedavg": { "algorithm": '{kind="p-fedavg"}' },
  fedprox: { "algorithm": '{kind="fedprox",proximal=0.1}' },
  scaffold: { "algorithm": '{kind="scaffold"}' },
  fedopt: { "algorithm": '{kind="fedopt",server={kind="momentum",beta=0.5}}' },
};

// Ranges that hold as long as the page.
const ranges = {};

// A whole range around a value, by its logarithm.
const around = (value, by = 30) => ({ low: value / by, high: value * by, log: true });

// Fields in the order in which they are shown: key, group, label, value and range or options, and
// what a value assigns. What is assigned as nothing is taken away.
export function fields(about, set) {
  const { spec, clients } = about;
  const { algorithm, problem } = spec;
  const found = [];
  const add = (field) => found.push({ keys: [field.key], assign: (value) => ({ [field.key]: String(value) }), ...field });
  const number = (group, key, label, value, range) =>
    typeof value === "number" && add({ group, key, label, value, ...range });

  const strength = Number(set.get("strength") ?? 1);
  const { response, base } = problem;
  const sensitivity = response.sensitivity;
  if (sensitivity !== undefined) {
    add({ group: "How people react", key: "strength", label: "strength: all sensitivities times", value: strength, low: 0, high: 2.5 });
    const key = "problem.response.sensitivity";
    const label = "sensitivity";
    // What the spec has is multiplied already.
    const own = (value, power = 1) => Number((value / strength ** power).toPrecision(12));
    const linear = (value) => ({ low: Math.min(0, value - 1), high: Math.max(1.5, value + 1) });
    if (strength !== 0) {
      if (typeof sensitivity === "number") number("How people react", key, label, own(sensitivity), linear(own(sensitivity)));
      if (typeof sensitivity?.average === "number") {
        const [average, variance] = [own(sensitivity.average), own(sensitivity.variance, 2)];
        number("How people react", `${key}.average`, "average sensitivity", average, { low: -1, high: 2 });
        number("How people react", `${key}.variance`, "variance between clients", variance, { low: 0, high: 0.5 });
      }
      if (typeof sensitivity?.low === "number") {
        number("How people react", `${key}.low`, "lowest sensitivity", own(sensitivity.low), { low: -1, high: 2 });
        number("How people react", `${key}.high`, "highest sensitivity", own(sensitivity.high), { low: -1, high: 2 });
      }
      for (const [name, value] of Object.entries(sensitivity?.by_name ?? {})) {
        const whole = `${key}.by_name.${JSON.stringify(name)}`;
        number("Sensitivity of each client", whole, name, typeof value === "number" ? own(value) : null, { low: -0.5, high: 3 });
      }
      if (Array.isArray(sensitivity) && sensitivity.length <= 60 && sensitivity.every((one) => typeof one === "number")) {
        sensitivity.forEach((value, at) => {
          const all = sensitivity.map((one) => own(one));
          add({
            group: "Sensitivity of each client", key: `${key}.${at}`, keys: [key], label: about.client_names?.[at] ?? `client ${at}`,
            value: all[at], low: -0.5, high: 2,
            assign: (now) => ({ [key]: text(all.map((one, place) => (place === at ? now : one))) }),
          });
        });
      }
    }
  }

  const kinds = Object.keys(KINDS).map((kind) => [kind, kind]);
  if (!KINDS[algorithm.kind]) kinds.push([algorithm.kind, algorithm.kind]);
  add({
    group: "Algorithm", key: "algorithm", keys: ["algorithm"], label: "algorithm", value: algorithm.kind, options: kinds,
    assign: (kind) => KINDS[kind] ?? {},
  });
  number("Algorithm", "algorithm.proximal", "proximal", algorithm.proximal, { low: 0, high: 5 });
  number("Algorithm", "algorithm.server.beta", "server momentum", algorithm.server?.beta, { low: 0, high: 0.99 });
  number("Algorithm", "algorithm.server.rate", "server rate", algorithm.server?.rate, { low: 0.05, high: 3 });
  const schemes = ["full", "with-replacement", "without-replacement"];
  if (!schemes.includes(algorithm.scheme)) schemes.push(algorithm.scheme);
  add({
    group: "Algorithm", key: "algorithm.scheme", label: "scheme", value: algorithm.scheme, options: schemes.map((name) => [name, name]),
    assign: (scheme) => ({
      "algorithm.scheme": scheme,
      "algorithm.cohort": scheme === "full" ? "" : String(algorithm.cohort ?? Math.max(1, Math.round(clients / 2))),
    }),
  });
  number("Algorithm", "algorithm.cohort", "clients a round, K", algorithm.cohort, { low: 1, high: clients, whole: true });
  const steps = { low: 1, high: Math.max(50, 4 * algorithm.local_steps), log: true, whole: true };
  number("Algorithm", "algorithm.local_steps", "local steps, E", algorithm.local_steps, steps);
  add({
    group: "Algorithm", key: "algorithm.deploy", label: "deployment", value: algorithm.deploy,
    options: [["step", "at every local step"], ["round", "once a round"]],
  });

  const size = algorithm.step_size;
  const constant = typeof size?.constant === "number";
  add({
    group: "Step size", key: "algorithm.step_size", label: "step size", value: constant ? "constant" : "decaying",
    options: [["constant", "constant"], ["decaying", "β / (t + γ)"]],
    assign: (kind) => {
      const taken = { "algorithm.step_size.constant": null, "algorithm.step_size.beta": null, "algorithm.step_size.gamma": null };
      const first = constant ? size.constant : size.beta / size.gamma;
      const table = kind === "constant"
        ? `{constant=${Number(first.toPrecision(6))}}`
        : `{beta=${Number((1000 * first).toPrecision(6))},gamma=1000.0}`;
      return { ...taken, "algorithm.step_size": table };
    },
  });
  // A range that moved with its value would slip under the hand.
  const first = (key, value) => {
    ranges[key] ??= around(value);
    return ranges[key];
  };
  if (constant) number("Step size", "algorithm.step_size.constant", "constant η", size.constant, first("constant", size.constant));
  else {
    number("Step size", "algorithm.step_size.beta", "β", size?.beta, first("beta", size?.beta));
    number("Step size", "algorithm.step_size.gamma", "γ", size?.gamma, first("gamma", size?.gamma));
  }

  number("Data and length", "problem.base.mean.average", "average mean", base.mean?.average, { low: -20, high: 20 });
  number("Data and length", "problem.base.mean.variance", "variance of means", base.mean?.variance, { low: 0, high: 5 });
  number("Data and length", "problem.base.noise", "noise", base.noise, { low: 0, high: 5 });
  number("Data and length", "problem.loss.l2", "l2", problem.loss.l2, { low: 0, high: 1 });
  ranges.rounds ??= { low: 1, high: Math.max(1000, 10 * spec.rounds), log: true, whole: true };
  number("Data and length", "rounds", "rounds", spec.rounds, ranges.rounds);
  return found;
}
