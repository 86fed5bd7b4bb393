// Figures as the server draws them, in a tree of their own, with values under the pointer, series that
// can be hidden, and files to take away.
import { make, save } from "./elements.js";

// How far from a point the pointer may be, in units of the figure.
const REACH = 12;

const OWN = `
:host{display:block}
svg{display:block;min-width:min(560px,200vw);width:100%;max-width:1100px;height:auto}
.legend{cursor:pointer}
.legend:focus-visible{outline:2px solid currentColor;outline-offset:3px}
.legend[aria-pressed=false]{opacity:.6;text-decoration:line-through}
.series.off{display:none}
#values{position:fixed;pointer-events:none;background:Canvas;color:CanvasText;border:1px solid GrayText;
border-radius:6px;padding:6px 10px;font:13px/1.5 system-ui,sans-serif;white-space:pre-line;z-index:5;
max-width:calc(100vw - 16px);font-variant-numeric:tabular-nums}
#values[hidden]{display:none}
`;

const nearest = (points, place) =>
  points.reduce((a, b) => (Math.abs(b.place - place) < Math.abs(a.place - place) ? b : a));

// What to say at a place: an x that was recorded, and the value of every series there.
function said(series, place) {
  const visible = series.filter((s) => s.points.length > 0 && !s.group.classList.contains("off"));
  if (visible.length === 0) return [];
  const at = nearest(visible.map((s) => nearest(s.points, place)), place);
  const rows = visible.map((s) => ({ name: s.group.dataset.name, ...nearest(s.points, at.place) }));
  const within = rows.filter((row) => Math.abs(row.place - place) < REACH);
  const line = (row) => `${row.name}: ${row.y}${row.x === at.x ? "" : ` at ${row.x}`}`;
  return within.length === 0 ? [] : [`at ${at.x}`, ...within.map(line)];
}

const point = (text) => {
  const [place, x, y] = text.split(" ");
  return { place: Number(place), x, y };
};

// The drawing as elements, and its style sheet apart: a page's policy knows no style inside of it.
function parsed(text) {
  const styles = [];
  const bare = text.replace(/<style>([^]*?)<\/style>/g, (_, style) => {
    styles.push(style);
    return "";
  });
  const set = bare.replace(/ style="/g, ' data-style="');
  const svg = new DOMParser().parseFromString(set, "image/svg+xml").documentElement;
  if (svg.localName !== "svg" || svg.querySelector("parsererror, script, foreignObject, a, image, use")) {
    throw new Error("the figure cannot be read");
  }
  for (const element of svg.querySelectorAll("[data-style]")) {
    element.style.cssText = element.dataset.style;
    element.removeAttribute("data-style");
  }
  return { svg: document.importNode(svg, true), style: styles.join("\n") };
}

export class Drawing {
  // A place for a figure; `name` is how its files are called.
  constructor(name) {
    this.name = name;
    this.text = null;
    this.hidden = new Set();
    this.host = make("div", { class: "figure", tabindex: "0", role: "region", "aria-label": "figure" });
    this.root = this.host.attachShadow({ mode: "open" });
    this.values = make("div", { id: "values", hidden: true });
    addEventListener("scroll", () => (this.values.hidden = true), { passive: true });
  }

  // Shows another figure in place of the last; what was hidden stays hidden.
  show(text) {
    if (text === this.text) return;
    this.text = text;
    const { svg, style } = parsed(text);
    const sheets = [style, OWN].map((css) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      return sheet;
    });
    this.root.adoptedStyleSheets = sheets;
    this.values.hidden = true;
    const focused = this.root.activeElement?.dataset.name;
    this.root.replaceChildren(svg, this.values);
    this.host.setAttribute("aria-label", svg.querySelector("title")?.textContent || "figure");
    this.listen(svg);
    const entries = [...svg.querySelectorAll(".legend")];
    entries.find((entry) => entry.dataset.name === focused)?.focus();
  }

  listen(svg) {
    const panels = [...svg.querySelectorAll(".panel")].filter((panel) => panel.dataset.xRange);
    const series = [...svg.querySelectorAll(".series")].map((group) => ({
      group,
      points: (group.dataset.values ?? "").split(";").filter(Boolean).map(point),
    }));
    const entries = [...svg.querySelectorAll(".legend")];
    svg.setAttribute("role", "group");
    const belongs = ({ name, shared }, entry) =>
      [name, shared].includes(entry) || name === `${entry}, ${shared}`;
    const apply = () => {
      for (const entry of entries) {
        entry.setAttribute("aria-pressed", String(!this.hidden.has(entry.dataset.name)));
      }
      for (const { group } of series) {
        group.classList.toggle("off", [...this.hidden].some((one) => belongs(group.dataset, one)));
      }
    };
    for (const entry of entries) {
      entry.setAttribute("tabindex", "0");
      entry.setAttribute("role", "button");
      entry.setAttribute("aria-label", `show ${entry.dataset.name}`);
      const toggle = () => {
        const name = entry.dataset.name;
        if (!this.hidden.delete(name)) this.hidden.add(name);
        apply();
      };
      entry.addEventListener("click", toggle);
      entry.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          toggle();
        }
      });
    }
    apply();
    if (panels.length !== 1) return;
    const [left, right] = panels[0].dataset.xRange.split(" ").map(Number);
    const [bottom, top] = panels[0].dataset.yRange.split(" ").map(Number);
    const tell = (event) => {
      const pointer = new DOMPoint(event.clientX, event.clientY);
      const { x, y } = pointer.matrixTransform(svg.getScreenCTM().inverse());
      const inside = x >= left && x <= right && y >= top && y <= bottom;
      const lines = inside ? said(series, x) : [];
      const { values } = this;
      values.hidden = lines.length === 0;
      values.textContent = lines.join("\n");
      // Beside the pointer, and on the screen.
      const room = document.documentElement.clientWidth - values.offsetWidth - 8;
      const beside = event.clientX + (event.clientX + 14 > room ? -values.offsetWidth - 14 : 14);
      values.style.left = `${Math.max(8, Math.min(beside, room))}px`;
      const below = innerHeight - values.offsetHeight - 8;
      values.style.top = `${Math.max(8, Math.min(event.clientY + 14, below))}px`;
    };
    svg.addEventListener("pointermove", tell);
    svg.addEventListener("pointerdown", tell);
    svg.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.values.hidden = true;
    });
  }

  // What is seen, as a vector file: without what is hidden.
  svgText() {
    if (this.hidden.size === 0) return this.text;
    const shown = this.root.querySelector("svg").cloneNode(true);
    for (const group of shown.querySelectorAll(".series.off")) group.remove();
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    const found = /<style>([^]*?)<\/style>/.exec(this.text);
    style.textContent = found ? found[1] : "";
    shown.prepend(style);
    return new XMLSerializer().serializeToString(shown);
  }

  saveSvg() {
    save(`${this.name}.svg`, this.svgText(), "image/svg+xml");
  }

  // The same as pixels, twice as fine as on the page.
  async savePng() {
    const url = URL.createObjectURL(new Blob([this.svgText()], { type: "image/svg+xml" }));
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    save(`${this.name}.png`, blob);
  }

  buttons() {
    return [
      make("button", { type: "button", onclick: () => this.text && this.saveSvg() }, "SVG"),
      make("button", { type: "button", onclick: () => this.text && this.savePng() }, "PNG"),
    ];
  }
}
