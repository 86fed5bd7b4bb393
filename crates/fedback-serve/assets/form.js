// The settings under a hand: a slider and a number, or a choice, for every field.
import { make, short } from "./elements.js";
import { fields } from "./fields.js";

// Of more fields than this the first are not shown until they are asked for.
const MANY = 12;

export class Form {
  // `set` has what was changed, by key; `change` hears of assignments.
  constructor(set, change) {
    this.set = set;
    this.change = change;
    this.fields = [];
    this.element = make("form", { "aria-label": "settings", onsubmit: (event) => event.preventDefault() });
  }

  clear() {
    this.fields = [];
    this.element.replaceChildren();
  }

  // Fields follow what the spec has become, but for the one in hand.
  show(about) {
    const now = fields(about, this.set);
    const same = now.length === this.fields.length && now.every((field, at) => field.key === this.fields[at].key);
    if (!same) {
      this.build(now);
      return;
    }
    now.forEach((field, at) => {
      const own = this.fields[at];
      own.assign = field.assign;
      own.value = field.value;
      own.show(field.value);
      own.element.classList.toggle("changed", this.isChanged(field));
    });
  }

  isChanged(field) {
    return field.keys.some((key) => this.set.has(key));
  }

  build(now) {
    const focused = this.element.contains(document.activeElement) && document.activeElement.name;
    this.fields = now;
    const groups = new Map();
    for (const field of now) {
      if (!groups.has(field.group)) groups.set(field.group, []);
      groups.get(field.group).push(field.options ? this.choice(field) : this.slider(field));
    }
    this.element.replaceChildren(...[...groups].map(([name, controls]) => {
      const box = make("fieldset", {}, make("legend", {}, name));
      if (controls.length > MANY) {
        box.append(make("details", {}, make("summary", {}, `${controls.length} of them`), controls));
      } else box.append(...controls);
      return box;
    }));
    if (focused) this.element.elements[focused]?.focus();
  }

  around(field, ...controls) {
    const word = make("span", { class: "word" }, field.label);
    field.element = make("div", { class: this.isChanged(field) ? "field changed" : "field" }, word, controls);
    return field.element;
  }

  choice(field) {
    const choice = make(
      "select",
      { name: field.key, "aria-label": field.label,
        onchange: (event) => this.change(field.assign(event.target.value)) },
      field.options.map(([value, text]) => make("option", { value, selected: value === field.value }, text)),
    );
    field.show = (value) => (choice.value = value);
    return this.around(field, choice);
  }

  slider(field) {
    const { low, high, log, whole } = field;
    const share = (value) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    const value = (at) => {
      const found = log ? low * (high / low) ** at : low + at * (high - low);
      return whole ? Math.round(found) : Number(found.toPrecision(3));
    };
    const range = make("input", { type: "range", name: field.key, min: 0, max: 1000, step: 1,
      "aria-label": field.label });
    const exact = make("input", { type: "number", step: "any", "aria-label": `${field.label}, as a number` });
    field.show = (now) => {
      const at = String(Math.round(1000 * Math.min(1, Math.max(0, share(now)))));
      if (document.activeElement !== range) range.value = at;
      range.setAttribute("aria-valuetext", short(now));
      if (document.activeElement !== exact) exact.value = String(now);
    };
    field.show(field.value);
    range.addEventListener("input", () => {
      const now = value(Number(range.value) / 1000);
      exact.value = String(now);
      range.setAttribute("aria-valuetext", short(now));
      this.change(field.assign(now));
    });
    exact.addEventListener("input", () => {
      const now = Number(exact.value);
      if (exact.value !== "" && Number.isFinite(now)) this.change(field.assign(now));
    });
    return this.around(field, range, exact);
  }
}
