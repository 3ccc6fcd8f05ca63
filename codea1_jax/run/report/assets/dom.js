// Building elements and writing numbers. Strings only ever become text nodes.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** An HTML element. `on...` attributes are listeners, null ones are left out; children are nodes or strings. */
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svgElement(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

/** A sentence in the place of something that does not exist yet. */
function emptyNote(sentence) {
  return element("p", { class: "empty" }, sentence);
}

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** A figure in its unit: "%" (already in percent), "share" (0 to 1), "s", "score" (a reward), "count", "tokens" or none. */
function figure(value, unit = "") {
  if (value === null || value === undefined) return "–";
  if (unit === "%") return value.toFixed(1);
  if (unit === "score") return value.toFixed(2);
  if (unit === "share") return `${(100 * value).toFixed(1)}%`;
  if (unit === "s") return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
  if (unit === "count" || unit === "tokens") {
    return value.toLocaleString("en", { maximumFractionDigits: Number.isInteger(value) ? 0 : 1 });
  }
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(1) : value.toPrecision(3).replace(/\.0+$/, "");
}

/** With a real minus sign, and a plus sign, so that the direction never rests on color alone. */
function signed(value, unit = "") {
  if (value === null || value === undefined) return "–";
  const text = figure(Math.abs(value), unit);
  return Number(text) === 0 ? "±0" : `${value < 0 ? "−" : "+"}${text}`;
}

function duration(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}
