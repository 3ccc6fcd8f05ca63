// From figures to pixels.

/** About `count` round numbers that span [low, high]. */
function niceTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Ticks for steps: whole numbers only. */
function stepTicks(low, high, count) {
  return [...new Set(niceTicks(low, Math.max(high, low + 1), count).map(Math.round))].filter((t) => t <= high);
}

/** The interval to draw: some air around the figures; from 0 if they are never negative and begin near it. */
function paddedRange(values, fromZero) {
  if (values.length === 0) return [0, 1];
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
  const air = (high - low) * 0.08;
  const startsAtZero = low >= 0 && (fromZero || low < (high - low) / 2);
  return [startsAtZero ? 0 : low - air, high + air];
}

function linear(domain, range) {
  const factor = (range[1] - range[0]) / (domain[1] - domain[0] || 1);
  return (value) => range[0] + (value - domain[0]) * factor;
}

/** Outlines of the markers, in the order of the series; shape tells series apart where color does not. */
const MARKERS = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.3 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}Z`,
  (x, y, r) => `M${x - r} ${y - r}L${x + r} ${y - r}L${x} ${y + 1.3 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.4 * r}V${y + 1.4 * r}M${x - 1.4 * r} ${y}H${x + 1.4 * r}`,
];
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "12 4", "4 4"];
