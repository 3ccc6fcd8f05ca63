// Figures and pictures as files. Nothing leaves the page: the browser saves what the page holds.

function saveFile(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A file name out of a title. */
function fileName(title, ending) {
  return `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "chart"}.${ending}`;
}

function csv(rows) {
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return rows.map((row) => `${row.map((value) => cell(String(value ?? ""))).join(",")}\n`).join("");
}

/** A chart's figures: one row a step, one column a series, with its interval where it has one. */
function chartCsv({ series, steps }) {
  const columns = series.flatMap((one) => [
    [one.label, one, one.values],
    ...(one.low ? [[`${one.label} low`, one, one.low], [`${one.label} high`, one, one.high]] : []),
  ]);
  const cells = (step) => columns.map(([, one, values]) => values[one.steps.indexOf(step)]);
  return csv([["step", ...columns.map(([label]) => label)], ...steps.map((step) => [step, ...cells(step)])]);
}

/** Every figure of every run, one a row. */
function saveAllFigures() {
  const rows = RUNS.flatMap((run) =>
    Object.keys(run.metrics).flatMap((kind) =>
      metricNames(kind).flatMap((name) => {
        const { steps, values } = column(run, kind, name);
        return steps.map((step, i) => [run.name, kind, step, name, values[i]]);
      }),
    ),
  );
  saveFile("figures.csv", "text/csv", csv([["run", "kind", "step", "metric", "value"], ...rows]));
}

const DRAWN_WITH = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight"];

/** The chart as it is on the screen, with its title and legend, as a picture that needs no style sheet. */
function chartSvg(state) {
  const { width } = state.drawing;
  const height = CHART_HEIGHT + 56;
  const colors = getComputedStyle(document.body);
  const text = (x, y, content, extra = {}) =>
    svgElement("text", { x, y, fill: colors.color, "font-family": "sans-serif", "font-size": 12, ...extra }, content);
  const copy = svgElement("svg", { width, height, viewBox: `0 -26 ${width} ${height}` });
  copy.append(
    svgElement("rect", { y: -26, width, height, fill: colors.backgroundColor }),
    text(MARGIN.left, -10, state.spec.title, { "font-weight": 600, "font-size": 13 }),
    ...[...state.plot.querySelector("svg").childNodes].map(styledCopy),
  );
  let left = MARGIN.left;
  for (const one of shownSeries(state)) {
    const swatch = styledCopy(state.legend.querySelector(`.swatch.series-${one.style + 1}`).firstChild);
    copy.append(svgElement("g", { transform: `translate(${left} ${CHART_HEIGHT + 8})` }, swatch), text(left + 32, CHART_HEIGHT + 18, one.label));
    left += 52 + 7 * one.label.length;
  }
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

function styledCopy(node) {
  const copy = node.cloneNode(false);
  if (node.nodeType !== Node.ELEMENT_NODE) return copy;
  const style = getComputedStyle(node);
  for (const name of DRAWN_WITH) copy.setAttribute(name, style.getPropertyValue(name));
  copy.append(...[...node.childNodes].map(styledCopy));
  return copy;
}
