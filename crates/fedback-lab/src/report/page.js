// Values under the pointer, and series that can be hidden. Everything is read from the figures.
const values = document.getElementById("values");
const axis = (panel, name) => {
  const numbers = (key) => panel.dataset[name + key].split(" ").map(Number);
  const log = panel.dataset[name + "Scale"] === "log";
  const [from, to] = numbers("Domain").map((x) => (log ? Math.log10(x) : x));
  const [start, end] = numbers("Range");
  return (pixel) => {
    const x = from + ((pixel - start) / (end - start)) * (to - from);
    return log ? 10 ** x : x;
  };
};
const show = (x) => {
  const size = Math.abs(x);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? x.toExponential(3) : String(+x.toPrecision(4));
};
const points = (path) =>
  (path.getAttribute("d").match(/-?[\d.]+[ ,]-?[\d.]+/g) || []).map((p) => p.split(/[ ,]/).map(Number));
for (const figure of document.querySelectorAll(".fedback-figure")) {
  const panel = figure.querySelector(".panel");
  const toX = axis(panel, "x");
  const toY = axis(panel, "y");
  const series = [...figure.querySelectorAll(".series")].map((group) => ({
    group,
    name: group.dataset.name,
    points: [...group.querySelectorAll(".curve")].flatMap(points),
  }));
  const entries = [...figure.querySelectorAll(".legend")];
  const hides = (name, s) =>
    [s.name, s.group.dataset.shared].includes(name) || s.name === `${name}, ${s.group.dataset.shared}`;
  for (const entry of entries) {
    entry.setAttribute("tabindex", "0");
    entry.setAttribute("role", "button");
    const toggle = () => {
      entry.classList.toggle("off");
      const hidden = entries.filter((one) => one.classList.contains("off"));
      for (const s of series) {
        s.group.classList.toggle("off", hidden.some((one) => hides(one.dataset.name, s)));
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
  figure.addEventListener("pointermove", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(figure.getScreenCTM().inverse());
    const [left, right] = panel.dataset.xRange.split(" ").map(Number);
    const [bottom, top] = panel.dataset.yRange.split(" ").map(Number);
    const inside = at.x >= left && at.x <= right && at.y >= top && at.y <= bottom;
    const rows = [];
    for (const s of series) {
      if (!inside || s.group.classList.contains("off") || s.points.length === 0) continue;
      const near = s.points.reduce((a, b) => (Math.abs(b[0] - at.x) < Math.abs(a[0] - at.x) ? b : a));
      if (Math.abs(near[0] - at.x) < 12) rows.push(`${s.name}: ${show(toY(near[1]))}`);
    }
    values.hidden = rows.length === 0;
    if (rows.length === 0) return;
    values.textContent = "";
    for (const line of [`at ${show(toX(at.x))}`, ...rows]) {
      values.appendChild(document.createElement("div")).textContent = line;
    }
    const flip = event.clientX > innerWidth - values.offsetWidth - 30;
    values.style.left = `${event.pageX + (flip ? -values.offsetWidth - 14 : 14)}px`;
    values.style.top = `${event.pageY + 14}px`;
  });
  figure.addEventListener("pointerleave", () => {
    values.hidden = true;
  });
}

// Paper cannot be clicked: what is folded is open in print.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
