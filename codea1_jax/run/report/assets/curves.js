// Which curves there are. Color 0 is the Code LLM's and color 1 the Test LLM's wherever one run is shown alone.

const EVALUATION_CHARTS = [
  ["Code LLM: solved problems", "percent", "%", [["eval/avg_at_n", AVERAGE], ["eval/pass_at_1", "pass@1"], ["eval/pass_at_8", "pass@8"]]],
  ["Test LLM: validity and kill rate", "percent", "%", [["eval/test_validity", "validity"], ["eval/kill_rate", "kill rate"]]],
  ["Test LLM: five tests per function", "percent", "%", [["eval/pass_at_5", "pass@5"], ["eval/mut_at_5", "mut@5"], ["eval/mul", "Mul"]]],
  ["Held-out golden tests", "log-probability of a token, nats", "", [["eval/heldout_logprob", "log-probability"]]],
];

const TRAINING_CHARTS = [
  ["Rewards", "mean reward", "", bothRoles("reward")],
  ["Programs", "share", "share", [["pass_rate", "kept tests passed"], ["book/pass_rate", "book tests passed"], ["code/valid", "programs that execute"]]],
  ["Tests", "share", "share", [["test/validity", "validity"], ["test/adversarial", "difficulty"]]],
  ["Mistake book", "tests remembered", "count", [["book/tests", "tests"]], { unlessZero: true }],
  ["Response length", "mean tokens", "tokens", bothRoles("response_tokens")],
  ["Responses cut off", "share", "share", bothRoles("truncated")],
  ["Groups without signal", "share of groups", "share", bothRoles("zero_variance")],
  ["KL to the reference policy", "nats per token", "", bothRoles("kl")],
  ["Entropy", "nats per token", "", bothRoles("entropy")],
  ["Gradient norm", "global norm before clipping", "", bothRoles("grad_norm")],
  ["Learning rate", "rate", "", bothRoles("learning_rate")],
  ["Ratios clipped, Code LLM", "share of tokens", "share", clipFractions("code"), { unlessZero: true }],
  ["Ratios clipped, Test LLM", "share of tokens", "share", clipFractions("test"), { unlessZero: true }],
];

const MORE_CHARTS = [
  ["Traffic of the mistake book", "tests per step", "count", [["book/added", "added"], ["book/removed", "removed"]]],
  ["Questions in the mistake book", "questions", "count", [["book/questions", "questions"]], { unlessZero: true }],
  ["Tokens drawn", "tokens per second", "count", sampled("tokens_per_second")],
  ["Useful decoded tokens", "share", "share", sampled("decode_goodput")],
  ["Useful prefilled tokens", "share", "share", sampled("prefill_goodput")],
  ["Samples redrawn because the cache was full", "samples", "count", sampled("preempted"), { unlessZero: true }],
  ["Programs compiled", "programs", "count", [["compiled/programs", "programs"]], { unlessZero: true }],
  ["Mean ratio", "new / old probability", "", bothRoles("ratio_mean")],
];

const LOSS = ["Loss", RUNS.every(isSupervised) ? "nats per token; lower is better" : "loss", "", bothRoles("loss")];

const PHASES = [
  ["seconds/generate_code", "sample programs"],
  ["seconds/generate_tests", "sample suites"],
  ["seconds/judge_wait", "verdicts and rewards"],
  ["seconds/update_code", "update Code LLM"],
  ["seconds/update_test", "update Test LLM"],
];

function bothRoles(name) {
  return [[`code/${name}`, "Code LLM"], [`test/${name}`, "Test LLM"]];
}

function sampled(figure) {
  return [[`${figure}/generate_code`, "programs"], [`${figure}/generate_tests`, "suites"]];
}

function clipFractions(role) {
  return [["high", "above"], ["low", "below"], ["dual", "dual clip"]].map(([end, label]) => [`${role}/clip_fraction_${end}`, label]);
}

/** The metrics worth a curve: none that is the same as another, and where zeros say nothing none that is always 0. */
function telling(kind, metrics, unlessZero) {
  const seen = new Map();
  for (const [name, label] of metrics) {
    const columns = RUNS.map((run) => column(run, kind, name));
    const values = columns.flatMap((one) => one.values);
    if (values.length === 0 || (unlessZero && values.every((value) => value === 0))) continue;
    const key = JSON.stringify(columns.map(({ steps, values }) => [steps, values]));
    seen.set(key, seen.has(key) ? [seen.get(key)[0], `${seen.get(key)[1]} = ${label}`] : [name, label]);
  }
  return [...seen.values()];
}

/** One chart of several metrics for a single run; for several, one chart per metric with a curve per run. */
function chartsOf(kind, [title, axis, unit, all, { unlessZero = false } = {}]) {
  const [markers, smooth] = [kind === "eval", kind === "train"];
  const metrics = telling(kind, all, unlessZero);
  if (GROUPS.length === 1) {
    const series = metrics.map(([name, label], style) => ({ label, style, ...groupColumn(GROUPS[0], kind, name) }));
    return [chart({ title, axis, unit, markers, smooth, series })];
  }
  return metrics.map(([name, label]) => {
    const series = GROUPS.map((group, i) => ({ label: groupLabel(group), style: i % 6, ...groupColumn(group, kind, name) }));
    return chart({ title: metrics.length > 1 ? `${title}: ${label}` : title, axis, unit, markers, smooth, series });
  });
}

function chartGrid(charts) {
  return element("div", { class: "charts" }, ...charts.filter((one) => one !== null));
}

function evaluationSection(section) {
  const charts = [...EVALUATION_CHARTS.flatMap((spec) => chartsOf("eval", spec)), honestyChart()].filter((one) => one !== null);
  if (charts.length === 0) section.append(emptyNote("No evaluation has run yet."));
  else section.append(element("p", { class: "note" }, bandNote()), chartGrid(charts));
}

/** What the Test LLM earns in training next to what it does on questions that it has not seen: honest where all rise. */
function honestyChart() {
  if (GROUPS.length > 1) return null;
  const curve = (kind, name, label, style) => ({ label, style, ...inPercent(kind, groupColumn(GROUPS[0], kind, name)) });
  const series = [
    curve("eval", "eval/test_validity", "validity, held out", 0),
    curve("eval", "eval/kill_rate", "kill rate, held out", 1),
    curve("train", "test/reward", "reward in training", 2),
    curve("train", "test/validity", "validity in training", 3),
  ];
  if ([series[0], series[2]].some((one) => one.steps.length === 0)) return null;
  return chart({ title: "Is the Test LLM honest?", axis: "percent; the held-out figures should rise with the reward", unit: "%", smooth: true, series });
}

/** Evaluations are logged in percent, training as shares. */
function inPercent(kind, curve) {
  if (kind === "eval") return curve;
  const scaled = (values) => values.map((value) => 100 * value);
  return { ...curve, values: scaled(curve.values), ...(curve.low ? { low: scaled(curve.low), high: scaled(curve.high) } : {}) };
}

/** What the bands of this page are. */
function bandNote() {
  const parts = [];
  if (GROUPS.some((group) => group.runs.length > 1)) parts.push("Lines are means over seeds; bands reach from the lowest seed to the highest.");
  if (GROUPS.some((group) => group.runs.length === 1)) parts.push("Bands of a single run are 95% confidence intervals over the questions that it was evaluated on.");
  return parts.join(" ");
}

function trainingSection(section) {
  if (metricNames("train").length === 0) {
    section.append(emptyNote("No training step has finished yet."));
    return;
  }
  const [first, rest] = RUNS.every(isSupervised) ? [[LOSS, ...TRAINING_CHARTS], MORE_CHARTS] : [TRAINING_CHARTS, [...MORE_CHARTS, LOSS]];
  section.append(chartGrid(first.flatMap((spec) => chartsOf("train", spec))));
  const more = [...rest.flatMap((spec) => chartsOf("train", spec)), ...otherCharts()].filter((one) => one !== null);
  if (more.length === 0) return;
  section.append(element("details", { class: "more" }, element("summary", {}, plural(more.length, "more curve")), chartGrid(more)));
}

/** Whatever else was logged, one chart per metric. */
function otherCharts() {
  const shown = new Set([...EVALUATION_CHARTS, ...TRAINING_CHARTS, ...MORE_CHARTS, LOSS].flatMap((spec) => spec[3].map(([name]) => name)));
  const kinds = [...new Set(RUNS.flatMap((run) => Object.keys(run.metrics)))].filter((kind) => kind !== "start");
  return kinds.flatMap((kind) =>
    metricNames(kind)
      .filter((name) => !shown.has(name) && !isBound(kind, name) && !(kind !== "eval" && name.startsWith("seconds/")))
      .flatMap((name) => chartsOf(kind, [name.replace(/avg_at_n\b/, AVERAGE), "", "", [[name, name]]])),
  );
}

function timeSection(section) {
  const named = (title, run) => (RUNS.length === 1 ? title : `${title}: ${run.name}`);
  const charts = RUNS.flatMap((run) => {
    const series = PHASES.map(([name, label], style) => ({ label, style, ...column(run, "train", name) }));
    const phases = chart({ title: named("Seconds per step, by phase", run), axis: "seconds", unit: "s", stacked: true, series });
    return [timeline(run, named("The medians of a step's phases", run)), phases];
  }).filter((one) => one !== null);
  if (charts.length === 0) section.append(emptyNote("No training step has been timed yet."));
  else section.append(element("div", { class: RUNS.length === 1 ? "charts one-column" : "charts" }, ...charts));
}
