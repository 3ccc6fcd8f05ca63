// The tables' own: every mean as a dot with its interval, and the curves of training as the report draws them.

const ROW = 26; // pixels: height of a row, room for its name, width of the scale
const LABEL = 170;
const SCALE = 330;

function dots({ title, rows }) {
  const ends = rows.flatMap(({ low, high }) => [low, high]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const room = 0.06 * Math.max(high - low, 1);
  const x = linear([low - room, high + room], [LABEL, LABEL + SCALE]);
  const bottom = ROW * rows.length;
  const ticks = [low, (low + high) / 2, high].flatMap((tick) => [
    svgElement("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 0, y2: bottom }),
    svgElement("text", { class: "tick", x: x(tick), y: bottom + 15, "text-anchor": "middle" }, `${tick.toFixed(0)}%`),
  ]);
  const marks = rows.flatMap((row, i) => {
    const y = ROW * (i + 0.5);
    return [
      svgElement("text", { class: "name", x: LABEL - 12, y: y + 4, "text-anchor": "end" }, row.name),
      svgElement("line", { class: "interval", x1: x(row.low), x2: x(row.high), y1: y, y2: y }),
      svgElement("circle", { class: "mean", cx: x(row.value), cy: y, r: 4.5 }),
    ];
  });
  const inWords = rows.map((row) => `${row.name} ${row.value.toFixed(1)}%`).join(", ");
  const frame = { viewBox: `0 0 ${LABEL + SCALE + 20} ${bottom + 20}`, role: "img", "aria-label": `${title}: ${inWords}` };
  return element("figure", {}, element("figcaption", {}, title), svgElement("svg", frame, ...ticks, ...marks));
}

for (const [table, { curves, plots }] of Object.entries(JSON.parse(byId("data").textContent))) {
  byId(table).querySelector(".dots").append(...curves.map(chart), ...plots.map(dots));
}
