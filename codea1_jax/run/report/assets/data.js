// The embedded runs, and how curves are taken from them.

const DATA = JSON.parse(byId("data").textContent);
const RUNS = DATA.runs;
const GROUPS = [...new Set(RUNS.map((run) => run.group))].map((name) => ({
  name,
  runs: RUNS.filter((run) => run.group === name),
}));

// What the mean over an evaluation's samples is called: avg@8, if all runs draw 8.
const DRAWN = [...new Set(RUNS.map((run) => run.eval_samples))];
const AVERAGE = DRAWN.length === 1 && DRAWN[0] !== null ? `avg@${DRAWN[0]}` : "avg@n";

/** One column of a run's lines of one kind, without the gaps: {steps, values}, and {low, high} if it has an interval. */
function column(run, kind, name) {
  const columns = run.metrics[kind];
  if (!columns || !columns[name]) return { steps: [], values: [] };
  const [low, high] = [columns[`${name}_low`], columns[`${name}_high`]];
  const bounded = low !== undefined && high !== undefined;
  const kept = columns[name].map((_, i) => i).filter((i) => columns[name][i] !== null && !(bounded && (low[i] ?? high[i]) === null));
  const cut = (values) => kept.map((i) => values[i]);
  return { steps: cut(columns.step), values: cut(columns[name]), ...(bounded ? { low: cut(low), high: cut(high) } : {}) };
}

/** Whether a metric is the bound of another one's interval. */
function isBound(kind, name) {
  const of = name.replace(/_(low|high)$/, "");
  return of !== name && metricNames(kind).includes(of);
}

/** The mean over a group's runs, step by step, with the lowest and highest where there are several runs. */
function groupColumn(group, kind, name) {
  if (group.runs.length === 1) return column(group.runs[0], kind, name);
  const bySteps = new Map();
  for (const run of group.runs) {
    const { steps, values } = column(run, kind, name);
    steps.forEach((step, i) => bySteps.set(step, [...(bySteps.get(step) ?? []), values[i]]));
  }
  const steps = [...bySteps.keys()].sort((a, b) => a - b);
  const values = steps.map((step) => bySteps.get(step));
  return {
    steps,
    values: values.map((list) => list.reduce((sum, value) => sum + value, 0) / list.length),
    low: values.map((list) => Math.min(...list)),
    high: values.map((list) => Math.max(...list)),
  };
}

function groupLabel(group) {
  return group.runs.length === 1 ? group.name : `${group.name} (${group.runs.length} seeds)`;
}

/** All metric names of one kind, over all runs, in the order of their first appearance. */
function metricNames(kind) {
  const names = RUNS.flatMap((run) => Object.keys(run.metrics[kind] ?? {}));
  return [...new Set(names)].filter((name) => name !== "step" && name !== "time");
}

/** A value of the run's configuration, which is written with two spaces below its section. */
function setting(run, section, name) {
  const block = new RegExp(`^${section}:\\n((?: .*\\n?)+)`, "m").exec(run.config)?.[1] ?? "";
  return new RegExp(`^  ${name}: (\\S+)`, "m").exec(block)?.[1] ?? null;
}

const isSupervised = (run) => setting(run, "method", "name") === "sft";

function lastStep(run) {
  const steps = Object.values(run.metrics).flatMap((columns) => columns.step);
  return steps.length ? Math.max(...steps) : null;
}
