// Values under the pointer, and series that can be hidden. Everything is read from the figures.
const values = document.getElementById("values");
const hide = () => {
  values.hidden = true;
};
// How far from a point the pointer may be, in units of the figure.
const REACH = 12;

const nearest = (points, place) =>
  points.reduce((a, b) => (Math.abs(b.place - place) < Math.abs(a.place - place) ? b : a));

// What to say at a place: an x that was recorded, and the value of every series there.
const said = (series, place) => {
  const visible = series.filter((s) => s.points.length > 0 && !s.group.classList.contains("off"));
  if (visible.length === 0) return [];
  const at = nearest(visible.map((s) => nearest(s.points, place)), place);
  const rows = visible.map((s) => ({ name: s.group.dataset.name, ...nearest(s.points, at.place) }));
  const within = rows.filter((row) => Math.abs(row.place - place) < REACH);
  const line = (row) => `${row.name}: ${row.y}${row.x === at.x ? "" : ` at ${row.x}`}`;
  return within.length === 0 ? [] : [`at ${at.x}`, ...within.map(line)];
};

const set = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
};

const point = (text) => {
  const [place, x, y] = text.split(" ");
  return { place: Number(place), x, y };
};

for (const figure of document.querySelectorAll(".fedback-figure")) {
  const panel = figure.querySelector(".panel");
  const [left, right] = panel.dataset.xRange.split(" ").map(Number);
  const [bottom, top] = panel.dataset.yRange.split(" ").map(Number);
  const series = [...figure.querySelectorAll(".series")].map((group) => ({
    group,
    points: group.dataset.values.split(";").filter(Boolean).map(point),
  }));
  const entries = [...figure.querySelectorAll(".legend")];
  const belongs = ({ name, shared }, entry) =>
    [name, shared].includes(entry) || name === `${entry}, ${shared}`;
  set(figure, { role: "group" });
  for (const entry of entries) {
    set(entry, { tabindex: 0, role: "button", "aria-pressed": true });
    // Also what is between the sample and the name can be clicked.
    const { x, y, width, height } = entry.getBBox();
    const area = document.createElementNS(figure.namespaceURI, "rect");
    set(area, { x, y, width, height, fill: "none", "pointer-events": "all" });
    entry.prepend(area);
    const toggle = () => {
      hide();
      set(entry, { "aria-pressed": entry.ariaPressed === "false" });
      const hidden = entries.filter((one) => one.ariaPressed === "false");
      for (const { group } of series) {
        const off = hidden.some((one) => belongs(group.dataset, one.dataset.name));
        group.classList.toggle("off", off);
      }
    };
    entry.addEventListener("click", toggle);
    entry.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle();
      }
    });
  }
  const show = (event) => {
    const pointer = new DOMPoint(event.clientX, event.clientY);
    const { x, y } = pointer.matrixTransform(figure.getScreenCTM().inverse());
    const inside = x >= left && x <= right && y >= top && y <= bottom;
    const lines = inside ? said(series, x) : [];
    values.hidden = lines.length === 0;
    values.textContent = lines.join("\n");
    // Beside the pointer, and on the screen.
    const room = document.documentElement.clientWidth - values.offsetWidth - 8;
    const beside = event.clientX + (event.clientX + 14 > room ? -values.offsetWidth - 14 : 14);
    values.style.left = `${Math.max(8, Math.min(beside, room))}px`;
    values.style.top = `${event.pageY + 14}px`;
  };
  figure.addEventListener("pointermove", show);
  figure.addEventListener("pointerdown", show);
  // A finger leaves when it is lifted; what it asked for stays until the next touch.
  figure.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
}
addEventListener("pointerdown", hide, true);
