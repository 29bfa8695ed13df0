// The script and the style of a page of board_page().
#pragma once

namespace plait::cli {

// Switches curves on and off, marks the one whose row is pointed at, and tells the point that is
// next to the mouse. Without it the page shows all curves.
inline constexpr const char* kPageScript = R"js(
"use strict";
const each = (what, then) => document.querySelectorAll(what).forEach(then);
const names = {};
each("#runs tbody tr", row => { names[row.dataset.run] = row.querySelector(".name").textContent; });

const set = (box, on) => {
  box.checked = on;
  each(`[data-run="${box.dataset.switch}"]`, part => part.classList.toggle("off", !on));
};
each("input[data-switch]", box => {
  set(box, true);
  box.addEventListener("change", () => set(box, box.checked));
});
each("button[data-all]", button => button.addEventListener("click", () =>
  each("input[data-switch]", box => set(box, button.dataset.all === "1"))));

const mark = run => each(".curve", curve =>
  curve.classList.toggle("faint", run !== null && curve.dataset.run !== run));
each("tr[data-run]", row => {
  row.addEventListener("mouseenter", () => mark(row.dataset.run));
  row.addEventListener("mouseleave", () => mark(null));
});

const points = new Map();
const points_of = curve => {
  if (!points.has(curve)) {
    const text = curve.getAttribute("points") ||
      `${curve.getAttribute("cx")},${curve.getAttribute("cy")}`;
    points.set(curve, text.trim().split(" ").map(point => point.split(",").map(Number)));
  }
  return points.get(curve);
};
const nearest = (svg, at) => {
  let best = null, least = 40 * 40;
  for (const curve of svg.querySelectorAll(".curve:not(.off)"))
    for (const [x, y] of points_of(curve)) {
      const far = (x - at.x) ** 2 + (y - at.y) ** 2;
      if (far < least) { least = far; best = {run: curve.dataset.run, x, y}; }
    }
  return best;
};
const tip = document.getElementById("tip");
each("svg.chart[data-x]", svg => {
  const [left, right, first, last] = svg.dataset.x.split(" ").map(Number);
  const [bottom, top, low, high, log] = svg.dataset.y.split(" ").map(Number);
  svg.addEventListener("mousemove", event => {
    const to = svg.getScreenCTM().inverse();
    const best = nearest(svg, new DOMPoint(event.clientX, event.clientY).matrixTransform(to));
    tip.hidden = best === null;
    mark(best && best.run);
    if (!best) return;
    const step = first + (last - first) * (best.x - left) / (right - left);
    let value = low + (high - low) * (best.y - bottom) / (top - bottom);
    if (log) value = 10 ** value;
    tip.textContent =
      `${names[best.run]}: ${Number(value.toPrecision(3))} at step ${Math.round(step)}`;
    const wide = tip.offsetWidth + 14;
    const from = event.clientX + wide > innerWidth ? event.clientX - wide : event.clientX + 14;
    tip.style.left = `${Math.max(from, 0) + scrollX}px`;
    tip.style.top = `${event.clientY + scrollY + 14}px`;
  });
  svg.addEventListener("mouseleave", () => { tip.hidden = true; mark(null); });
});
document.documentElement.classList.add("live");
)js";

inline constexpr const char* kPageStyle = R"css(
:root { color-scheme: light dark; --ground: #ffffff; --text: #1a1a1a; --faint: #666666;
  --line: #dddddd; --good: #00613f; --bad: #a8320a; --wait: #7a5200 }
@media (prefers-color-scheme: dark) { :root { --ground: #16181d; --text: #e6e6e6; --faint: #a0a0a0;
  --line: #34373f; --good: #4fc79a; --bad: #ff9466; --wait: #e6b84d } }
body { background: var(--ground); color: var(--text); margin: 1.5rem auto; padding: 0 1rem;
  max-width: 100rem; font: 14px/1.45 system-ui, sans-serif }
h1 { font-size: 1.3rem; margin: 0 } h2 { font-size: 1rem; margin: 0 0 .3rem }
p { color: var(--faint); margin: .2rem 0 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; white-space: nowrap }
th { color: var(--faint); font-weight: 400 }
.n { text-align: right } .changed { white-space: normal; min-width: 16rem }
code { font: .85em ui-monospace, monospace; margin-right: .8em; overflow-wrap: anywhere }
.name { font-weight: 600; white-space: normal; overflow-wrap: anywhere; min-width: 8rem }
.running { color: var(--good) } .failed, .lost { color: var(--bad) }
.interrupted { color: var(--wait) }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr));
  gap: 1.5rem 2rem; margin-top: 1.5rem }
figure { margin: 0; break-inside: avoid; min-width: 0 }
svg.chart { width: 100%; height: auto; display: block }
svg text { fill: currentColor; font: 12px system-ui, sans-serif }
.grid { stroke: currentColor; stroke-opacity: .15 }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round }
.curve.off { display: none } .curve.faint { stroke-opacity: .2 } tr.off { opacity: .45 }
.key { width: 26px; height: 10px; vertical-align: middle } .key line { stroke-width: 2.5 }
button, input { display: none } .live button, .live input { display: inline-block }
input { margin: 0 .4rem 0 0; vertical-align: middle }
button { font: inherit; color: inherit; background: none; border: 1px solid var(--line);
  border-radius: 4px; padding: .1rem .6rem; margin: 0 .4rem .8rem 0; cursor: pointer }
#tip { position: absolute; pointer-events: none; background: var(--text); color: var(--ground);
  padding: .15rem .5rem; border-radius: 4px; max-width: 80vw }
@media print { :root { --ground: #ffffff; --text: #1a1a1a; --faint: #444444; --line: #cccccc;
  --good: #00613f; --bad: #a8320a; --wait: #7a5200 }
  body { margin: 0; max-width: none; font-size: 10px } )css"
                                          R"css(.live button, .live input, #tip { display: none }
  .scroll { overflow: visible } .charts { grid-template-columns: 1fr 1fr } }
)css";

}  // namespace plait::cli
