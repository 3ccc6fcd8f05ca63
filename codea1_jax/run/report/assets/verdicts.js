// The judge's verdicts on a program, and how a test and its verdict look.

const STATUS = {
  killed: { glyph: "✗", text: "killed" },
  survived: { glyph: "✓", text: "survived" },
  broken: { glyph: "!", text: "does not run" },
  untested: { glyph: "–", text: "no test" },
};

const isKill = (test) => test.verdict !== "passed";

/** Every test a program met: [{test, origin: "suite" | "book" | "sibling", suite}]; of siblings' tests those it failed. */
function meetings(program) {
  const siblings = (program.failed_of_siblings ?? []).map((test) => ({ test, origin: "sibling", suite: null }));
  const generated = program.suites.flatMap((suite) => (suite.tests ?? []).map((test) => ({ test, origin: "suite", suite: suite.index })));
  return [...(program.book ?? []).map((test) => ({ test, origin: "book", suite: null })), ...generated, ...siblings];
}

function statusOf(program) {
  if (!program.valid) return "broken";
  const met = meetings(program);
  if (met.length === 0) return "untested";
  return met.some(({ test }) => isKill(test)) ? "killed" : "survived";
}

function killedBy(program, origin) {
  return meetings(program).some((met) => met.origin === origin && isKill(met.test));
}

function statusBadge(status) {
  const { glyph, text } = STATUS[status];
  return element("span", { class: `badge ${status}` }, element("span", { "aria-hidden": true }, glyph), ` ${text}`);
}

function verdictClass(verdict) {
  return verdict === "passed" ? "passed" : verdict === "failed" ? "failed" : "other";
}

/** One test: a sign, the assertion, and, unless it passed, the verdict in words. */
function testChip(test) {
  const kind = verdictClass(test.verdict);
  const glyph = { passed: "✓", failed: "✗", other: "!" }[kind];
  const verdict = kind === "passed" ? element("span", { class: "hidden" }, "passed") : element("span", { class: "verdict" }, test.verdict === "failed" ? outcome(test) : test.verdict);
  return element(
    "li",
    { class: `chip ${kind}${test.stated === undefined ? "" : " mistaken"}` },
    element("span", { class: "glyph", "aria-hidden": true }, glyph),
    testCode({ ...test, call: beginningAndEnd(test.call) }),
    test.stated === undefined ? null : element("small", {}, "the test said ", element("code", {}, test.stated)),
    verdict,
  );
}

/** What became of a test's call: what it returned, or how it ended. */
function outcome({ verdict, returned }) {
  if (!returned) return verdict;
  if (returned.length > 120) returned = `${returned.slice(0, 120)}…`;
  return verdict === "failed" ? `returned ${returned}` : `${verdict}: ${returned}`;
}

/** A long call without its middle: of a class the last line is what is tested. */
function beginningAndEnd(call) {
  const lines = call.split("\n");
  return lines.length <= 6 ? call : [...lines.slice(0, 2), "…", ...lines.slice(-3)].join("\n");
}

/** What is called or put in, and what must come of it. */
function testCode(test, task) {
  return element("code", { "data-task": task }, test.call, element("span", { class: "equals" }), test.expected);
}

/** The tests that killed a program, each once, with where they came from. */
function killerTable(program, question) {
  const killers = new Map();
  for (const { test, origin, suite } of meetings(program).filter((met) => isKill(met.test))) {
    const key = JSON.stringify([test.call, test.expected, test.verdict]);
    const known = killers.get(key) ?? { test, sources: [] };
    known.sources.push({ book: "mistake book", sibling: author(question, test) }[origin] ?? `suite ${suite}`);
    killers.set(key, known);
  }
  const rows = [...killers.values()].map(({ test, sources }) =>
    element(
      "tr",
      {},
      element("td", {}, element("code", {}, test.call)),
      element("td", {}, element("code", {}, test.expected)),
      element("td", {}, element("span", { class: `verdict ${verdictClass(test.verdict)}` }, outcome(test))),
      element("td", { class: "sources" }, countedSources(sources)),
    ),
  );
  if (rows.length === 0) return null;
  return element(
    "div",
    { class: "scroll killers", tabindex: 0, role: "region", "aria-label": "Tests that killed this program" },
    element("table", {}, element("thead", {}, headRow("call", "expected", "the program", "from")), element("tbody", {}, ...rows)),
  );
}

/** Whose suite a test of a sibling is from. */
function author({ programs }, { call, expected }) {
  for (const { index, suites } of programs) {
    const found = suites.find(({ tests }) => (tests ?? []).some((test) => test.call === call && test.expected === expected));
    if (found) return `program ${index}, suite ${found.index}`;
  }
  return "another program's suite";
}

function countedSources(sources) {
  return [...new Set(sources)]
    .map((source) => [source, sources.filter((other) => other === source).length])
    .map(([source, count]) => (count > 1 ? `${source} (×${count})` : source))
    .join(", ");
}
