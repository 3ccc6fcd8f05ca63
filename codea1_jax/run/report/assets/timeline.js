// A run's median step as bars over time: what the devices do one after the other, and what the judge does meanwhile.

const LANE = { top: 20, height: 24, apart: 50 };

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** A phase's median seconds; 0 where the run has none. */
function medianSeconds(run, name) {
  const { values } = column(run, "train", name);
  return values.length ? median(values) : 0;
}

/** What passes between two steps, in seconds: records, saving as far as steps wait for it, evaluations seldom. */
function medianPause(run) {
  const [{ steps, values: times }, { values: taken }] = [column(run, "train", "time"), column(run, "train", "seconds/step")];
  const pauses = steps.flatMap((step, i) => (i > 0 && steps[i - 1] === step - 1 ? [times[i] - times[i - 1] - taken[i]] : []));
  return pauses.length ? Math.max(0, median(pauses)) : 0;
}

/** The bars of the devices and of the judge: {label, style, start, seconds, hidden?}. */
function stepBars(run) {
  let end = 0;
  const phases = PHASES.map(([name, label], style) => ({ name, label, style, seconds: medianSeconds(run, name) }));
  const devices = phases
    .concat({ name: "pause", label: "between steps", style: 5, seconds: medianPause(run) })
    .filter((bar) => bar.seconds > 0)
    .map((bar) => ({ ...bar, start: end, end: (end += bar.seconds) }));
  const sampled = devices.findLast((bar) => bar.name.startsWith("seconds/generate"));
  const suites = devices.find((bar) => bar.name === "seconds/generate_tests");
  const hidden = Math.min(medianSeconds(run, "seconds/judge_hidden"), suites?.seconds ?? 0);
  const wait = devices.find((bar) => bar.name === "seconds/judge_wait");
  const label = "judging behind sampling";
  const judge = hidden > 0 ? [{ label, style: 2, start: sampled.end - hidden, seconds: hidden, hidden: true }] : [];
  if (wait) judge.push({ ...wait, label: "judging and scoring that are waited for" });
  return { devices, judge, total: end };
}

/** The figure, or null if no step was timed. */
function timeline(run, title) {
  const { devices, judge, total } = stepBars(run);
  if (total === 0) return null;
  const lanes = [["devices", devices], ["judge", judge]].filter(([, bars]) => bars.length > 0);
  const bottom = lanes.length * LANE.apart;
  const share = (seconds) => `${((100 * seconds) / total).toFixed(2)}%`;
  const described = lanes.map(([name, bars]) => `${name}: ${bars.map((bar) => `${bar.label} ${figure(bar.seconds, "s")} s`).join(", ")}`);
  const drawing = svgElement(
    "svg",
    { height: bottom + 18, width: "100%", role: "img", "aria-label": `${title}. ${described.join("; ")}.` },
    ...lanes.flatMap(([name, bars], lane) => [
      svgElement("text", { x: 0, y: lane * LANE.apart + LANE.top - 7 }, name),
      ...bars.map((bar) => timelineBar(bar, lane * LANE.apart + LANE.top, share)),
    ]),
    ...niceTicks(0, total, 5).map((tick) => {
      const anchor = tick === 0 ? "start" : tick > 0.97 * total ? "end" : "middle";
      return svgElement("text", { class: "tick", x: share(tick), y: bottom + 12, "text-anchor": anchor }, `${tickText(tick, "s")} s`);
    }),
  );
  return element(
    "figure",
    { class: "timeline" },
    element("figcaption", {}, element("span", { class: "chart-title" }, title), element("span", { class: "chart-step" }, `${figure(total, "s")} s`)),
    element("div", { class: "plot" }, drawing),
    element("ul", { class: "legend" }, ...[...devices, ...judge.filter((bar) => bar.hidden)].map((bar) => timelineLegend(bar, total))),
  );
}

function timelineBar(bar, y, share) {
  const classes = `series-${bar.style + 1}${bar.hidden ? " hidden-work" : ""}`;
  const box = { class: "area", x: share(bar.start), width: share(bar.seconds), y, height: LANE.height };
  return svgElement("g", { class: classes }, svgElement("rect", box, svgElement("title", {}, `${bar.label}: ${figure(bar.seconds, "s")} s`)));
}

function timelineLegend(bar, total) {
  const swatch = svgElement("svg", { class: `swatch series-${bar.style + 1}${bar.hidden ? " hidden-work" : ""}`, viewBox: "0 0 26 12", "aria-hidden": true });
  swatch.append(svgElement("rect", { class: "area", x: 5, width: 16, height: 12, rx: 2 }));
  const part = bar.hidden ? "hidden" : figure(bar.seconds / total, "share");
  return element("li", {}, swatch, element("span", {}, bar.label), element("output", {}, `${figure(bar.seconds, "s")} s, ${part}`));
}
