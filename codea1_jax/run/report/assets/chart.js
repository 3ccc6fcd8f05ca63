// Line and stacked charts in SVG, with a legend that doubles as the readout and switches series on and off.
//
// A chart is {title, unit, stacked?, markers?, smooth?, series: [{label, style, steps, values, low?, high?}]}; `style` is
// the number of a color, marker and dash. Point at it, or focus it and use the arrow keys, to read any step.

const CHART_HEIGHT = 210;
const MARGIN = { top: 20, right: 14, bottom: 30, left: 46 };

function chart(spec) {
  const series = spec.series.filter((one) => one.steps.length > 0);
  if (series.length === 0) return null;
  const steps = [...new Set(series.flatMap((one) => one.steps))].sort((a, b) => a - b);
  const stepLabel = element("span", { class: "chart-step" });
  const legend = element("ul", { class: "legend" });
  const plot = element("div", { class: "plot", tabindex: 0, role: "slider", "aria-label": `${spec.title}, step` });
  const state = { spec, series, steps, shown: steps, hidden: new Set(), plot, legend, stepLabel, drawing: null };
  legend.append(...series.map((one) => legendItem(one, state)));
  new ResizeObserver(() => drawChart(state)).observe(plot);
  VIEW.charts.push(state);
  addReadout(state);
  addZoom(state);
  return element(
    "figure",
    { class: "chart" },
    element("figcaption", {}, element("span", { class: "chart-title" }, spec.title), stepLabel),
    plot,
    legend,
    element(
      "p",
      { class: "save" },
      saveButton("CSV", spec, () => saveFile(fileName(spec.title, "csv"), "text/csv", chartCsv(state))),
      saveButton("SVG", spec, () => saveFile(fileName(spec.title, "svg"), "image/svg+xml", chartSvg(state))),
    ),
  );
}

function saveButton(form, spec, onclick) {
  return element("button", { type: "button", "aria-label": `Save ${spec.title} as ${form}`, onclick }, form);
}

function legendItem(one, state) {
  const { spec, hidden } = state;
  const swatch = svgElement("svg", { class: `swatch series-${one.style + 1}`, viewBox: "0 0 26 12", "aria-hidden": true });
  if (spec.stacked) swatch.append(svgElement("rect", { class: "area", x: 5, width: 16, height: 12, rx: 2 }));
  else {
    swatch.append(svgElement("path", { class: "line", d: "M0 6H26", "stroke-dasharray": DASHES[one.style % 6] }));
    if (spec.markers) swatch.append(svgElement("path", { class: "marker", d: MARKERS[one.style % 6](13, 6, 3.5) }));
  }
  const toggle = (event) => {
    if (!hidden.delete(one)) hidden.add(one);
    event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(one)));
    drawChart(state);
  };
  const button = { type: "button", "aria-pressed": "true", title: "show or hide", onclick: toggle };
  const output = element("output", { "aria-hidden": true });
  return element("li", {}, element("button", button, swatch, element("span", {}, one.label), output));
}

function shownSeries({ series, hidden }) {
  return series.filter((one) => !hidden.has(one));
}

/** Draws at the present width; called again whenever that changes. */
function drawChart(state) {
  const { spec, plot } = state;
  const width = plot.clientWidth;
  if (width === 0) return;
  const inside = state.steps.filter((step) => step >= VIEW.from && step <= VIEW.to);
  const steps = (state.shown = inside.length ? inside : state.steps); // a view without any of these steps changes nothing
  const series = shownSeries(state).map((one) => (inside.length ? inView(one, spec.smooth) : one)).filter((one) => one.steps.length > 0);
  const layers = spec.stacked ? stack(series, steps) : series;
  const range = paddedRange(layers.flatMap((one) => [...one.values, ...(one.raw ?? []), ...(one.low ?? []), ...(one.high ?? [])]), spec.stacked);
  const x = linear([steps[0], steps.at(-1)], [MARGIN.left, width - MARGIN.right]);
  const y = linear(range, [CHART_HEIGHT - MARGIN.bottom, MARGIN.top]);
  const cursor = svgElement("g", { class: "cursor" });
  const selection = svgElement("rect", { class: "selection", y: MARGIN.top, height: CHART_HEIGHT - MARGIN.top - MARGIN.bottom, width: 0 });
  const drawing = svgElement(
    "svg",
    { viewBox: `0 0 ${width} ${CHART_HEIGHT}`, height: CHART_HEIGHT, role: "img", "aria-label": inWords(spec, state.series) },
    ...axes(spec, range, steps, x, y, width),
    ...layers.flatMap((one) => (spec.stacked ? stackedLayer(one, x, y) : lineLayer(one, spec, x, y))),
    selection,
    cursor,
  );
  plot.replaceChildren(drawing);
  state.drawing = { x, y, cursor, selection, layers, width };
  readout(state, null);
}

function axes(spec, range, steps, x, y, width) {
  const parts = [];
  for (const tick of niceTicks(range[0], range[1], 4)) {
    parts.push(svgElement("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }));
    parts.push(svgElement("text", { class: "tick", x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick, spec.unit)));
  }
  const bottom = CHART_HEIGHT - MARGIN.bottom;
  for (const tick of stepTicks(steps[0], steps.at(-1), Math.min(6, width / 70))) {
    parts.push(svgElement("line", { class: "grid", x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4 }));
    parts.push(svgElement("text", { class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle" }, String(tick)));
  }
  parts.push(svgElement("text", { class: "axis", x: MARGIN.left, y: 10 }, spec.axis));
  parts.push(svgElement("text", { class: "axis", x: width - MARGIN.right, y: CHART_HEIGHT - 2, "text-anchor": "end" }, "training step"));
  return parts;
}

function tickText(value, unit) {
  if (unit === "share") return `${Number((100 * value).toPrecision(6))}%`;
  return Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential() : String(value);
}

function path(steps, values, x, y) {
  return steps.map((step, i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(values[i]).toFixed(1)}`).join("");
}

/** The outline of everything between two curves over the same steps. */
function between(steps, low, high, x, y) {
  const back = steps.map((_, i) => steps.length - 1 - i);
  const returning = path(back.map((i) => steps[i]), back.map((i) => low[i]), x, y);
  return `${path(steps, high, x, y)}${returning.replace("M", "L")}Z`;
}

function lineLayer(one, spec, x, y) {
  const group = svgElement("g", { class: `series-${one.style + 1}` });
  if (one.low) group.append(svgElement("path", { class: "band", d: between(one.steps, one.low, one.high, x, y) }));
  if (one.raw) group.append(svgElement("path", { class: "line raw", d: path(one.steps, one.raw, x, y) }));
  group.append(svgElement("path", { class: "line", d: path(one.steps, one.values, x, y), "stroke-dasharray": DASHES[one.style % 6] }));
  const alone = one.steps.length === 1;
  if (spec.markers || alone) {
    const shape = MARKERS[one.style % 6];
    one.steps.forEach((step, i) => group.append(svgElement("path", { class: "marker", d: shape(x(step), y(one.values[i]), 3.2) })));
  }
  return [group];
}

/** Puts the series on top of one another; a step that a series lacks counts 0. */
function stack(series, steps) {
  let below = steps.map(() => 0);
  return series.map((one) => {
    const own = new Map(one.steps.map((step, i) => [step, one.values[i]]));
    const low = below;
    const high = steps.map((step, i) => low[i] + (own.get(step) ?? 0));
    below = high;
    return { ...one, steps, low, high, values: high };
  });
}

function stackedLayer(one, x, y) {
  const group = svgElement("g", { class: `series-${one.style + 1}` });
  group.append(svgElement("path", { class: "area", d: between(one.steps, one.low, one.high, x, y) }));
  const last = one.steps.length - 1;
  const top = y(one.high[last]);
  if (y(one.low[last]) - top > 15) {
    const middle = (top + y(one.low[last])) / 2 + 4;
    group.append(svgElement("text", { class: "area-label", x: x(one.steps[last]) - 6, y: middle, "text-anchor": "end" }, one.label));
  }
  return [group];
}

function inWords(spec, series) {
  const described = series.map((one) => {
    const [first, last] = [0, one.steps.length - 1].map((i) => `${figure(one.values[i], spec.unit)} at step ${one.steps[i]}`);
    return `${one.label}: ${first}${one.steps.length > 1 ? `, ${last}` : ""}`;
  });
  return `${spec.title}. ${described.join("; ")}.`;
}

/** Pointer and keyboard: both choose a step to read. */
function addReadout(state) {
  const { plot } = state;
  let at = Infinity;
  const show = (index) => {
    at = Math.max(0, Math.min(state.shown.length - 1, index));
    readout(state, state.shown[at]);
  };
  plot.addEventListener("pointermove", (event) => {
    if (!state.drawing) return;
    const left = event.clientX - plot.getBoundingClientRect().left;
    const distances = state.shown.map((step) => Math.abs(state.drawing.x(step) - left));
    show(distances.indexOf(Math.min(...distances)));
  });
  plot.addEventListener("pointerleave", () => readout(state, null));
  plot.addEventListener("focus", () => show(at));
  plot.addEventListener("blur", () => readout(state, null));
  plot.addEventListener("keydown", (event) => {
    const target = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: Infinity }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    show(target);
  });
}

/** Shows one step's figures, never smoothed, in the legend; without a step, each series' last in view. */
function readout(state, step) {
  const { spec, series, shown: steps, plot, legend, stepLabel, drawing } = state;
  const outputs = legend.querySelectorAll("output");
  const spoken = series.map((one, i) => {
    const index = step === null ? one.steps.findLastIndex((own) => own <= steps.at(-1)) : one.steps.indexOf(step);
    const range = one.low && index >= 0 ? ` (${figure(one.low[index], spec.unit)} to ${figure(one.high[index], spec.unit)})` : "";
    outputs[i].textContent = index < 0 ? "–" : figure(one.values[index], spec.unit) + range;
    return `${one.label} ${outputs[i].textContent}`;
  });
  const shown = step ?? steps.at(-1);
  stepLabel.textContent = step === null && shown === state.steps.at(-1) ? "last" : `step ${shown}`;
  fill(plot, { "aria-valuemin": steps[0], "aria-valuemax": steps.at(-1), "aria-valuenow": shown, "aria-valuetext": `step ${shown}: ${spoken.join(", ")}` }, []);
  if (drawing) drawCursor(drawing, step);
}

function drawCursor({ x, y, cursor, layers }, step) {
  if (step === null) return cursor.replaceChildren();
  const dots = layers
    .filter((one) => one.steps.includes(step))
    .map((one) => svgElement("circle", { class: `dot series-${one.style + 1}`, cx: x(step), cy: y(one.values[one.steps.indexOf(step)]), r: 4 }));
  const line = svgElement("line", { x1: x(step), x2: x(step), y1: MARGIN.top, y2: CHART_HEIGHT - MARGIN.bottom });
  return cursor.replaceChildren(line, ...dots);
}
