// Elements by function. Text only ever becomes text: nothing that a store holds is markup here.

// The element of a name; attributes by name, listeners as on…, children as elements or text.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A number as people read it: four digits, as the command prints them.
export function short(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (typeof number !== "number") return String(number);
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e7) return String(number);
  if (size >= 1e6 || size < 1e-3) return number.toExponential(2).replace("e+", "e");
  return String(Number(number.toPrecision(4)));
}

export const words = (value) => {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return short(value);
  return typeof value === "string" ? value : JSON.stringify(value);
};

// A table of rows; the first row of a column decides nothing: numbers are aligned by their kind.
export function table(head, rows, attributes = {}) {
  const cell = (value) => {
    if (value instanceof Node) return make("td", {}, value);
    const number = typeof value === "number";
    return make("td", number ? { class: "number" } : {}, words(value));
  };
  const heads = head.map((text) => make("th", { scope: "col" }, text));
  return make(
    "table",
    attributes,
    make("thead", {}, make("tr", {}, heads)),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell)))),
  );
}

// What can be scrolled must be reached by the keyboard.
export const scrolled = (name, ...children) =>
  make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, ...children);

export const select = (label, options, chosen, changed) =>
  make(
    "label",
    {},
    label,
    make(
      "select",
      { onchange: (event) => changed(event.target.value) },
      options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)),
    ),
  );

// Hands a file to whoever asked for it.
export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const called = (element) =>
  element.getAttribute("aria-label") ?? element.getAttribute("href") ?? element.textContent;

// Puts other content in place of the last, and leaves whoever reads it where they were: what has the
// focus, what is scrolled, what is unfolded.
export function replace(container, ...children) {
  const focus = document.activeElement;
  const focused = container.contains(focus) ? called(focus) : null;
  const boxes = () => [...container.querySelectorAll(".scroll")];
  const folds = () => [...container.querySelectorAll("details")];
  const places = new Map(boxes().map((box) => [called(box), [box.scrollLeft, box.scrollTop]]));
  const open = new Set(folds().filter((fold) => fold.open).map((fold) => fold.firstChild.textContent));
  container.replaceChildren(...children);
  for (const box of boxes()) box.scrollTo(...(places.get(called(box)) ?? [0, 0]));
  for (const fold of folds()) fold.open ||= open.has(fold.firstChild.textContent);
  if (focused === null) return;
  const all = [...container.querySelectorAll("a, summary, [tabindex]")];
  all.find((element) => called(element) === focused)?.focus({ preventScroll: true });
}
