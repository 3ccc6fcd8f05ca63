// What all charts show alike: which steps, and how smooth their lines are.
//
// Drag across a chart to zoom into those steps, double-click or press Escape to see all again; the toolbar does the same.

const VIEW = { from: -Infinity, to: Infinity, smoothing: 0, charts: [] };

function changeView(change) {
  Object.assign(VIEW, change);
  VIEW.charts.forEach(drawChart);
  const tools = byId("tools"); // not every page has them
  if (tools === null) return;
  for (const end of ["from", "to"]) tools.querySelector(`[name=${end}]`).value = Number.isFinite(VIEW[end]) ? VIEW[end] : "";
}

function showAll() {
  changeView({ from: -Infinity, to: Infinity });
}

/** A series as it is drawn: smoothed over all of its steps, then cut to those in view. */
function inView(one, smooth) {
  const { from, to } = VIEW;
  const kept = one.steps.map((_, i) => i).filter((i) => one.steps[i] >= from && one.steps[i] <= to);
  const cut = (values) => values && kept.map((i) => values[i]);
  const drawn = smooth && VIEW.smoothing > 0;
  return {
    ...one,
    steps: cut(one.steps),
    values: cut(drawn ? smoothed(one.values) : one.values),
    low: cut(one.low),
    high: cut(one.high),
    raw: drawn ? cut(one.values) : null,
  };
}

/** An exponential moving average, corrected for its beginning, as TensorBoard draws it. */
function smoothed(values) {
  const weight = VIEW.smoothing;
  let sum = 0;
  return values.map((value, i) => {
    sum = weight * sum + (1 - weight) * value;
    return sum / (1 - weight ** (i + 1));
  });
}

/** The controls of all charts. */
function toolbar() {
  const bound = (name, label, open) => {
    const change = (event) => changeView({ [name]: event.target.value === "" ? open : Number(event.target.value) });
    return element("label", {}, label, element("input", { name, type: "number", min: 0, max: lastOfAll(), step: 1, placeholder: name === "to" ? "last" : "first", onchange: change }));
  };
  const slide = (event) => changeView({ smoothing: Number(event.target.value) });
  return element(
    "div",
    { class: "tools", id: "tools", role: "group", "aria-label": "All charts" },
    bound("from", "From step", -Infinity),
    bound("to", "to", Infinity),
    element("button", { type: "button", onclick: showAll }, "All steps"),
    element("label", {}, "Smoothing", element("input", { name: "smoothing", type: "range", min: 0, max: 0.98, step: 0.02, value: 0, oninput: slide })),
    element("button", { type: "button", onclick: saveAllFigures }, "Save all figures (CSV)"),
  );
}

function lastOfAll() {
  return Math.max(...RUNS.map((run) => lastStep(run) ?? 0));
}

/** Dragging from one step to another zooms in; a movement of a few pixels does not. */
function addZoom(state) {
  const { plot } = state;
  let start = null;
  const place = (event) => event.clientX - plot.getBoundingClientRect().left;
  const nearest = (left) => {
    const distances = state.shown.map((step) => Math.abs(state.drawing.x(step) - left));
    return state.shown[distances.indexOf(Math.min(...distances))];
  };
  const forget = () => {
    start = null;
    state.drawing?.selection.setAttribute("width", 0);
  };
  plot.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && state.drawing) start = place(event);
  });
  plot.addEventListener("pointermove", (event) => {
    if (start === null || !state.drawing) return;
    const [left, right] = [start, place(event)].sort((a, b) => a - b);
    fill(state.drawing.selection, { x: left, width: right - left }, []);
  });
  plot.addEventListener("pointerup", (event) => {
    if (start === null || !state.drawing) return;
    const ends = [start, place(event)];
    const [from, to] = ends.map(nearest).sort((a, b) => a - b);
    forget();
    if (Math.abs(ends[1] - ends[0]) > 8 && to > from) changeView({ from, to });
  });
  plot.addEventListener("pointerleave", forget);
  plot.addEventListener("pointercancel", forget);
  plot.addEventListener("dblclick", showAll);
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") showAll();
  });
}
