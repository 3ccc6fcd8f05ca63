// One question at one step: its text, its mistake book, and the programs that match the filters.

function questionView(run, step, question, matching, openProgram) {
  const hidden = question.programs.length - matching.length;
  const first = matching.find((program) => statusOf(program) === "killed") ?? matching[0];
  const open = matching.some((program) => program.index === openProgram) ? openProgram : first?.index;
  const cards = matching.map((program) => programCard(program, program.index === open, question));
  return [
    element(
      "header",
      { class: "question-head" },
      element("p", { class: "eyebrow" }, `step ${step} · ${question.question_id}`),
      element("h3", { id: "question-title", tabindex: -1 }, "Question"),
      element("p", { class: "question-text" }, question.question),
      question.entry_point ? element("p", { class: "note" }, "Entry point ", element("code", {}, question.entry_point)) : null,
      otherSteps(run, step, question),
    ),
    element(
      "div",
      { class: "folds" },
      question.reference ? referenceFold(question.reference) : null,
      bookFold(run, step, question),
      diffPanel(run, question.question_id, step),
      textFold("Prompt of the Code LLM", question.prompt),
    ),
    element(
      "div",
      { class: "cards-head" },
      element("h4", {}, hidden ? `${matching.length} of ${plural(question.programs.length, "program")} match` : plural(question.programs.length, "program")),
      element("button", { type: "button", onclick: (event) => toggleAll(event.target, cards) }, "Open all"),
    ),
    element("p", { class: "note" }, [rewardRule(run), suiteRule(run), sameRewards(question)].filter(Boolean).join(" ")),
    ...cards,
  ];
}

/** How programs of this run are rewarded, in a sentence; "" where a function of the user's own decides. */
function rewardRule(run) {
  const [method, own] = ["method", "rewards"].map((section) => setting(run, section, section === "method" ? "name" : "code"));
  if (!method || (own && own !== "null")) return "";
  if (method === "golden") return "A program is rewarded by the share of golden tests that it passes.";
  const pooled = setting(run, "rewards", "pool_tests") === "true";
  const tests = pooled ? "the kept tests of all suites of this question" : "its suites' kept tests";
  if (setting(run, "rewards", "passing") !== "all") return `A program's reward is the mean of two shares that it passes, where there are such tests: of the mistake book's, and of ${tests}.`;
  if (pooled) return `A program's reward is 1 if it passes the mistake book's tests and ${tests}, else 0.`;
  return "A program's reward is the share of its suites whose kept tests it all passes, and 0 if it fails a test of the mistake book.";
}

function suiteRule(run) {
  const [alpha, size, value, own, difficulty] = ["alpha", "suite_size", "test_value", "test", "difficulty"].map((name) => setting(run, "rewards", name));
  if (value !== "paper" || own !== "null" || setting(run, "method", "name") === "golden") return "";
  const failed = difficulty === "any" ? "1 if a kept test fails the program, else 0" : `the failing tests among ${size}, over ${size}`;
  return (
    `A suite's reward is ${alpha} · validity + ${1 - alpha} · difficulty, and 0 for a program that does not run. Validity is the smaller of kept / ${size} and 1 − invalid / ${size}. ` +
    `Difficulty is ${failed}; where the mistake book has tests, it is half of that, minus half of the share of the book's tests that fail, plus ½.`
  );
}

function sameRewards({ programs }) {
  return programs.length > 1 && programs.every(({ reward }) => reward === programs[0].reward) ? "All programs here earned the same, so the Code LLM learned nothing from them." : "";
}

/** Links to the same question at the other steps that the page holds. */
function otherSteps(run, step, question) {
  const others = run.rollouts.steps
    .filter((one) => one.step !== step && one.questions.some((other) => other.question_id === question.question_id))
    .map((one) => element("a", { href: hashOf({ step: one.step, question: question.question_id, program: null }) }, String(one.step)));
  return others.length ? element("p", { class: "note others" }, "Also at step", ...others) : null;
}

function toggleAll(button, cards) {
  const open = button.textContent === "Open all";
  for (const card of cards) card.open = open;
  button.textContent = open ? "Close all" : "Open all";
}

function referenceFold(reference) {
  return element("details", { class: "fold" }, element("summary", {}, "Reference solution"), pythonBlock(reference, "Reference solution"));
}

/** The question's mistake book now, and how often each test was remembered at the other steps shown here. */
function bookFold(run, step, question) {
  const moments = run.rollouts.steps
    .map((one) => ({ step: one.step, question: one.questions.find((other) => other.question_id === question.question_id) }))
    .filter((one) => one.question);
  const key = (test) => JSON.stringify([test.call, test.expected]);
  const tests = new Map(moments.flatMap((one) => (one.question.book_before ?? []).map((test) => [key(test), test])));
  const count = question.book_before?.length ?? 0;
  if (tests.size === 0) return element("p", { class: "note" }, "The mistake book had no test of this question before the steps shown here.");
  const rows = [...tests.entries()].map(([id, test]) => {
    const cells = moments.map((one) => {
      const entry = (one.question.book_before ?? []).find((other) => key(other) === id);
      return element("td", { class: one.step === step ? "now" : null }, entry ? String(entry.frequency ?? 1) : "·");
    });
    return element("tr", {}, element("th", { scope: "row" }, testCode(test, question.task)), ...cells);
  });
  return element(
    "details",
    { class: "fold" },
    element("summary", {}, `Mistake book before step ${step}: ${plural(count, "test")}`),
    element("p", { class: "note" }, "How often programs have failed each remembered test, at every step shown here."),
    element(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Mistake book by step" },
      element("table", { class: "book" }, element("thead", {}, headRow("test", ...moments.map((one) => `step ${one.step}`))), element("tbody", {}, ...rows)),
    ),
  );
}
