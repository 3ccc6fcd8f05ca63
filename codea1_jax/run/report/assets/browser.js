// The rollouts browser: filters, a list of questions, and the chosen question. Its whole state is the page's hash.

const FILTERS = { text: "", outcome: "any", origin: "any", low: "", high: "" };

const browser = { run: 0, step: null, question: null, program: null, ...FILTERS };

function rolloutsSection(section) {
  if (RUNS.every((run) => run.rollouts.steps.length === 0)) {
    const none = RUNS.every((run) => run.rollouts.recorded_steps === 0);
    const why = RUNS.every(isSupervised) ? "A supervised run has no rollouts." : "No step has been played yet.";
    section.append(emptyNote(none ? why : "The recorded rollouts are too large for this page."));
    return;
  }
  browser.run = RUNS.findIndex((run) => run.rollouts.steps.length > 0);
  section.append(
    element("p", { class: "lead", id: "rollouts-note" }),
    filterForm(),
    element(
      "div",
      { class: "browser" },
      element("nav", { class: "questions", "aria-label": "Questions" }, element("p", { id: "match-count", role: "status" }), element("ol", { id: "question-list" })),
      element("article", { id: "question", "aria-labelledby": "question-title" }),
    ),
    element("p", { class: "note keys" }, ...keyHelp()),
  );
  addEventListener("hashchange", onTravel);
  addEventListener("keydown", onBrowserKey);
  readHash();
  drawBrowser();
}

function keyHelp() {
  const keys = [["j", "next question"], ["k", "previous question"], ["n", "next program"], ["p", "previous program"], ["[", "earlier step"], ["]", "later step"], ["/", "search"]];
  return keys.flatMap(([key, meaning]) => [element("kbd", {}, key), ` ${meaning}  `]);
}

function filterForm() {
  // A field speaks at every key and a menu when it has changed: redrawing as a field is left would swallow the click.
  const listeners = {
    onsubmit: (event) => event.preventDefault(),
    oninput: (event) => event.target.matches("input") && onFilter(event),
    onchange: (event) => event.target.matches("select") && onFilter(event),
  };
  return element(
    "form",
    { class: "filters", id: "filters", role: "search", "aria-label": "Filter rollouts", ...listeners },
    RUNS.length > 1 ? field("Run", element("select", { name: "run" }, ...RUNS.map((run, i) => element("option", { value: i }, run.name)))) : null,
    controlGroup(
      "Step",
      element("button", { type: "button", "aria-label": "Earlier step", onclick: () => moveStep(-1) }, "‹"),
      element("select", { name: "step", "aria-label": "Step" }),
      element("button", { type: "button", "aria-label": "Later step", onclick: () => moveStep(1) }, "›"),
    ),
    field("Question", element("input", { name: "text", type: "search", placeholder: "text or id" })),
    field("Outcome", choices("outcome", { any: "any", killed: "killed", survived: "survived", broken: "does not run", untested: "no test" })),
    field("Killed by", choices("origin", { any: "any test", suite: "a suite against it", sibling: "another program's suite", book: "the mistake book" })),
    controlGroup("Reward", rewardInput("low", "lowest reward", 0), "to", rewardInput("high", "highest reward", 1)),
    element("button", { type: "button", class: "plain", onclick: clearFilters }, "Clear"),
  );
}

function field(label, control) {
  return element("label", { class: "field" }, element("span", {}, label), control);
}

function controlGroup(label, ...controls) {
  const named = { class: "field", role: "group", "aria-label": label };
  return element("div", named, element("span", {}, label), element("span", { class: "controls" }, ...controls));
}

function choices(name, options) {
  return element("select", { name }, ...Object.entries(options).map(([value, text]) => element("option", { value }, text)));
}

function rewardInput(name, label, placeholder) {
  return element("input", { name, type: "number", min: 0, max: 1, step: 0.05, placeholder, "aria-label": label, inputmode: "decimal" });
}

function onFilter(event) {
  const { name, value } = event.target;
  browser[name] = name === "run" || name === "step" ? Number(value) : value;
  if (name === "run") browser.step = null;
  browser.program = null;
  drawAndRemember();
}

function clearFilters() {
  Object.assign(browser, FILTERS);
  drawAndRemember();
}

/** Puts the state into the address without a step in the history: typing is not travelling. */
function drawAndRemember() {
  drawBrowser();
  history.replaceState(null, "", hashOf({}));
}

function onTravel() {
  if (!readHash()) return;
  const fromList = byId("question-list").contains(document.activeElement);
  drawBrowser();
  if (fromList) document.querySelector("#question-list [aria-current]")?.focus({ preventScroll: true });
  const { top } = byId("question").getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) byId("question").scrollIntoView();
}

// --- the state ---

function currentRollouts() {
  return RUNS[browser.run].rollouts;
}

function currentStep() {
  const { steps } = currentRollouts();
  return steps.find((one) => one.step === browser.step) ?? steps.at(-1);
}

/** The programs of a question that pass the filters; none if its text does not. */
function matchingPrograms(question) {
  const wanted = browser.text.trim().toLowerCase();
  if (wanted && !`${question.question_id}\n${question.question}`.toLowerCase().includes(wanted)) return [];
  const low = browser.low === "" ? -Infinity : Number(browser.low);
  const high = browser.high === "" ? Infinity : Number(browser.high);
  return question.programs.filter(
    (program) =>
      (program.reward ?? 0) >= low &&
      (program.reward ?? 0) <= high &&
      (browser.outcome === "any" || statusOf(program) === browser.outcome) &&
      (browser.origin === "any" || killedBy(program, browser.origin)),
  );
}

function matches() {
  const questions = currentStep()?.questions ?? [];
  return questions.map((question) => ({ question, programs: matchingPrograms(question) })).filter((one) => one.programs.length > 0);
}

function hashOf(changes) {
  const state = { ...browser, ...changes };
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== FILTERS[name] && !(name === "run" && RUNS.length === 1)) parts.set(name, value);
  }
  return `#rollouts?${parts}`;
}

/** Takes the state from the address; false if the address is about something else. */
function readHash() {
  if (!location.hash.startsWith("#rollouts?")) return false;
  const parts = new URLSearchParams(location.hash.slice("#rollouts?".length));
  const number = (name) => (/^\d+$/.test(parts.get(name) ?? "") ? Number(parts.get(name)) : null);
  for (const name of Object.keys(FILTERS)) browser[name] = parts.get(name) ?? FILTERS[name];
  const run = number("run");
  if (run !== null && run < RUNS.length) browser.run = run;
  Object.assign(browser, { step: number("step"), question: parts.get("question"), program: number("program") });
  return true;
}

// --- drawing ---

function drawBrowser() {
  const step = currentStep();
  const found = matches();
  const chosen = found.find((one) => one.question.question_id === browser.question) ?? found[0];
  Object.assign(browser, { step: step?.step ?? null, question: chosen?.question.question_id ?? browser.question });
  drawControls();
  byId("rollouts-note").textContent = selectionNote();
  byId("match-count").textContent = `${found.length} of ${plural(step?.questions.length ?? 0, "question")}`;
  byId("question-list").replaceChildren(...found.map((one) => questionLink(one, one === chosen)));
  const view = chosen
    ? questionView(RUNS[browser.run], step.step, chosen.question, chosen.programs, browser.program)
    : step ? [emptyNote("No program matches these filters.")] : [];
  byId("question").replaceChildren(...view);
  showCurrentLink();
}

/** Scrolls the list, and not the page, to the chosen question. */
function showCurrentLink() {
  const link = document.querySelector("#question-list [aria-current]");
  const list = document.querySelector(".questions");
  if (!link) return;
  const [inner, outer] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) list.scrollTop += inner.top - outer.top - outer.height / 3;
}

function drawControls() {
  const form = byId("filters").elements;
  form.namedItem("step").replaceChildren(...currentRollouts().steps.map(stepOption));
  for (const name of ["run", "step", ...Object.keys(FILTERS)]) {
    const control = form.namedItem(name);
    if (control && control !== document.activeElement) control.value = browser[name] ?? "";
  }
  form.namedItem("step").value = browser.step ?? "";
}

/** Says what part of the recorded rollouts this page holds. */
function selectionNote() {
  const { steps, recorded_steps: recorded } = currentRollouts();
  if (recorded === 0) return "This run has recorded no rollouts yet.";
  const whole = steps.length === recorded && steps.every((one) => one.questions.length === one.recorded);
  const held = whole
    ? `This page holds all ${plural(recorded, "recorded step")}.`
    : `This page holds rollouts of ${steps.length} of ${plural(recorded, "recorded step")}: evenly spaced steps, as far as there was ` +
      "room, and the last step's questions where they came up before. The run directory has the rest.";
  return `${held} In the list, each sign is a program: ✓ survived, ✗ killed, ! does not run.`;
}

function stepOption({ step, questions, recorded }) {
  const part = questions.length < recorded ? ` (${questions.length} of ${recorded})` : "";
  return element("option", { value: step }, `${step}${part}`);
}

function questionLink({ question, programs }, chosen) {
  const killed = programs.filter((program) => statusOf(program) === "killed").length;
  const strip = programs.map((program) => element("span", { class: statusOf(program) }, STATUS[statusOf(program)].glyph));
  return element(
    "li",
    {},
    element(
      "a",
      { href: hashOf({ question: question.question_id, program: null }), "aria-current": chosen ? "true" : null },
      element("span", { class: "question-line" }, question.question),
      element("span", { class: "strip", "aria-hidden": true }, ...strip),
      element("span", { class: "hidden" }, `${killed} of ${plural(programs.length, "program")} killed`),
    ),
  );
}

// --- moving about ---

function moveStep(by) {
  const { steps } = currentRollouts();
  const target = steps[steps.indexOf(currentStep()) + by];
  if (target) location.hash = hashOf({ step: target.step, program: null });
}

function moveQuestion(by) {
  const found = matches();
  const target = found[found.findIndex((one) => one.question.question_id === browser.question) + by];
  if (target) location.hash = hashOf({ question: target.question.question_id, program: null });
}

function moveProgram(by) {
  const cards = [...document.querySelectorAll("#question .card")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  const target = cards[at < 0 ? 0 : at + by];
  if (!target) return;
  target.open = true;
  target.querySelector("summary").focus();
  target.scrollIntoView({ block: "nearest" });
}

const BROWSER_KEYS = {
  j: () => moveQuestion(1),
  k: () => moveQuestion(-1),
  n: () => moveProgram(1),
  p: () => moveProgram(-1),
  "[": () => moveStep(-1),
  "]": () => moveStep(1),
  "/": () => byId("filters").elements.namedItem("text").focus(),
};

function onBrowserKey(event) {
  const typing = event.target.matches("input, select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !BROWSER_KEYS[event.key]) return;
  event.preventDefault();
  BROWSER_KEYS[event.key]();
}
