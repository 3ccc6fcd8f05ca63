// One program: its reward, its code, the tests that killed it, and the suites written against it.

function programCard(program, open, question) {
  const status = statusOf(program);
  const own = meetings(program).filter(({ origin }) => origin !== "sibling");
  const kills = own.filter(({ test }) => isKill(test)).length;
  const siblings = program.failed_of_siblings?.length ? `, ${program.failed_of_siblings.length} of others'` : "";
  const body = element("div", { class: "card-body" });
  const draw = () => body.childNodes.length || body.append(...programBody(program, question));
  const card = element(
    "details",
    { class: `card ${status}`, id: `program-${program.index}`, "data-task": question.task, open, ontoggle: draw },
    element(
      "summary",
      {},
      element("span", { class: "card-title" }, `Program ${program.index}`),
      statusBadge(status),
      element("span", { class: "card-tests" }, own.length && program.valid ? `failed ${kills} of its ${plural(own.length, "test")}${siblings}` : ""),
      rewardMeter(program.reward),
      element("span", { class: "card-figure" }, element("small", {}, "advantage "), signed(program.advantage, "score")),
    ),
    body,
  );
  if (open) draw();
  return card;
}

/** The reward as a figure over a bar from 0 to 1. */
function rewardMeter(reward) {
  const bar = element("span", { class: "bar", "aria-hidden": true });
  bar.style.setProperty("--share", Math.max(0, Math.min(1, reward ?? 0)));
  return element("span", { class: "card-figure reward" }, element("small", {}, "reward "), figure(reward, "score"), bar);
}

function programBody(program, question) {
  const code = program.program
    ? pythonBlock(program.program, `Code of program ${program.index}`)
    : emptyNote("The response held no program.");
  return [
    element("div", { class: "code-column" }, code, textFold("Response as written", program.response)),
    element("div", { class: "tests-column" }, ...testsColumn(program, question)),
  ];
}

function testsColumn(program, question) {
  const parts = [];
  const killers = killerTable(program, question);
  const reason = program.valid ? undefined : meetings(program).find(({ test }) => test.returned)?.test;
  if (reason) parts.push(element("p", { class: "note" }, `It does not run: ${outcome(reason)}`));
  else if (killers) parts.push(element("h5", {}, program.valid ? "Killed by" : "Failed tests"), killers);
  if (program.book?.length) parts.push(element("h5", {}, "Mistake book"), chips(program.book));
  parts.push(element("h5", {}, "Suites written against it"));
  if (program.suites.some(({ tests }) => (tests ?? []).some(({ stated }) => stated !== undefined))) {
    parts.push(element("p", { class: "note" }, "✓ and ✗ say whether the program passes. A wrong answer has been replaced by the reference's."));
  }
  if (program.suites.length === 0) parts.push(emptyNote("No suite was written against this program."));
  else if ((program.duplicate_of ?? program.index) !== program.index) parts.push(emptyNote(`The same program as ${program.duplicate_of}, whose suites these are.`));
  parts.push(...program.suites.map(suiteRow), textFold("Prompt of these suites", program.suite_prompt));
  return parts;
}

function chips(tests) {
  return element("ul", { class: "chips" }, ...tests.map(testChip));
}

function suiteRow(suite) {
  const facts = [
    ["reward", figure(suite.reward, "score")],
    ["validity", figure(suite.validity, "score")],
    ["difficulty", figure(suite.adversarial, "score")],
    ["advantage", signed(suite.advantage, "score")],
  ];
  const tests = suite.tests ?? [];
  facts.push(["kept", String(tests.length)], ["invalid", String(suite.invalid ?? 0)]);
  return element(
    "section",
    { class: "suite", "aria-label": `Suite ${suite.index}` },
    element(
      "header",
      {},
      element("b", {}, `Suite ${suite.index}`),
      suite.trained ? element("span", { class: "badge trained" }, "in the update") : null,
      ...facts.map(([name, value]) => element("span", { class: "fact" }, element("small", {}, `${name} `), value)),
    ),
    tests.length ? chips(tests) : emptyNote("No test of this suite was kept."),
    suiteFold(suite),
  );
}

/** The suite as written, and what was not taken from it. */
function suiteFold(suite) {
  const rejected = suite.rejected ?? [];
  if (!suite.response && rejected.length === 0) return null;
  const rows = rejected.map(({ text, reason }) => element("li", {}, element("code", {}, text), element("span", {}, ` ${reason}`)));
  return element(
    "details",
    { class: "fold" },
    element("summary", {}, rejected.length ? `As written, ${rejected.length} not used` : "As written"),
    suite.response ? element("pre", { class: "raw", tabindex: 0 }, suite.response) : null,
    rows.length ? element("ul", { class: "rejected" }, ...rows) : null,
  );
}

function textFold(title, text) {
  if (!text) return null;
  return element("details", { class: "fold" }, element("summary", {}, title), element("pre", { class: "raw", tabindex: 0 }, text));
}
