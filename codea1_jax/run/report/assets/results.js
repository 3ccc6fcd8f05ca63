// The table at the top: before and after training.

// Shown name, name in summary.json, name in an evaluation line, unit, explanation.
const HEADLINE = [
  [AVERAGE, /^avg_at_\d+$/, "eval/avg_at_n", "%", "held-out problems solved, mean over the samples of each"],
  ["test validity", /^test_validity$/, "eval/test_validity", "%", "of suites, as they are rewarded: wrong answers and repeats lower it"],
  ["kill rate", /^kill_rate$/, "eval/kill_rate", "%", "suites that expose the wrong program they were written for"],
  ["pass@5", /^pass_at_5$/, "eval/pass_at_5", "%", "correct tests among five asked for"],
  ["mut@5", /^mut_at_5$/, "eval/mut_at_5", "%", "mutants (variants with a bug) that the correct ones kill"],
  ["Mul", /^mul$/, "eval/mul", "%", "pass@5 × mut@5 / 100"],
];

/** The figures of "base" or "final": from the summary if there is one, else the first or last evaluation. */
function headline(run, when) {
  const summary = run.summary[when] ?? {};
  return HEADLINE.map(([, inSummary, inLine]) => {
    const name = Object.keys(summary).find((key) => inSummary.test(key));
    if (name !== undefined) return summary[name];
    const { values } = column(run, "eval", inLine);
    return (when === "base" ? values[0] : values.slice(1).at(-1)) ?? null;
  });
}

/** Half of the 95% interval of a change between the first and the last evaluation, as if these were independent. */
function margin(run, inLine) {
  const { low = [], high = [] } = column(run, "eval", inLine);
  const width = (i) => high.at(i) - low.at(i);
  return low.length > 1 ? Math.hypot(width(0), width(-1)) / 2 : 0;
}

/** Seconds of training: the sum of the steps. */
function trainingSeconds(run) {
  const { values } = column(run, "train", "seconds/step");
  return values.length ? values.reduce((sum, value) => sum + value, 0) : null;
}

function resultsSection(section) {
  const known = (run) => [...headline(run, "base"), ...headline(run, "final")].some((value) => value !== null);
  if (!RUNS.some(known)) {
    section.append(emptyNote("No held-out question has been answered."), RUNS.length === 1 ? facts(RUNS[0]) : "");
  } else {
    section.append(RUNS.length === 1 ? element("div", { class: "results" }, oneRunTable(RUNS[0]), facts(RUNS[0])) : comparisonTable());
  }
}

/** A few plain facts next to the table: how long things took and how much was done. */
function facts(run) {
  const last = (name) => column(run, "train", name).values.at(-1);
  const shown = { before_training: "before training", training: "steps and evaluations", total: "total" };
  const pairs = Object.entries(run.summary.seconds ?? {}).map(([name, seconds]) => [shown[name] ?? name.replaceAll("_", " "), duration(seconds)]);
  const steps = column(run, "train", "seconds/step").values;
  if (steps.length) pairs.push(["all steps", duration(trainingSeconds(run))], ["median step", `${figure(median(steps), "s")} s`]);
  const evaluations = column(run, "eval", "seconds/eval").values;
  if (evaluations.length) pairs.push([plural(evaluations.length, "evaluation"), duration(evaluations.reduce((sum, value) => sum + value, 0))]);
  if (last("book/tests")) pairs.push(["mistake book", plural(last("book/tests"), "test")]);
  return element("dl", { class: "facts" }, ...pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function oneRunTable(run) {
  const [base, final] = [headline(run, "base"), headline(run, "final")];
  const unclear = [];
  const rows = HEADLINE.flatMap(([label, , inLine, unit, meaning], i) => {
    if (base[i] === null && final[i] === null) return [];
    const change = base[i] === null || final[i] === null ? null : final[i] - base[i];
    const chance = change === null ? 0 : margin(run, inLine);
    const words = signed(change, unit) + (chance ? ` ± ${figure(chance, unit)}` : "");
    const cells = final.some((value) => value !== null) ? [figure(final[i], unit), words] : [];
    const isUnclear = !chance || Math.abs(change) < chance;
    if (chance && isUnclear) unclear.push(label);
    return [tableRow(label, meaning, [figure(base[i], unit), ...cells], isUnclear)];
  });
  const evaluated = HEADLINE.map(([, , key]) => column(run, "eval", key).steps).find((steps) => steps.length) ?? [];
  const since = final.some((value) => value !== null) ? [evaluated.length ? `after step ${evaluated.at(-1)}` : "final", "change"] : [];
  const every = Number(setting(run, "eval", "every"));
  const next = every && run.total_steps ? `; the next evaluation is after step ${Math.min(run.total_steps, every * (Math.floor(lastStep(run) / every) + 1))}` : "";
  const said = since.length ? "Held-out figures in percent; changes in points, with 95% intervals over the questions." : `Held-out figures in percent. The run has not been evaluated since its start${next}.`;
  const nothing = since.length && unclear.length ? [`No clear change (gray): ${unclear.join(", ")}.`] : [];
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      { class: "figures" },
      caption([said, ...(run.summary.conclusions ?? []), ...nothing].join(" ")),
      element("thead", {}, headRow("", "base", ...since)),
      element("tbody", {}, ...rows),
    ),
  );
}

/** A table's caption, no wider than the page however wide the table. */
function caption(text) {
  return element("caption", {}, element("span", {}, text));
}

function headRow(...labels) {
  return element("tr", {}, ...labels.map((label) => element("th", { scope: "col" }, label)));
}

/** cells: base and, after an evaluation since, final and change. unclear: whether the change may be chance. */
function tableRow(label, meaning, cells, unclear) {
  const classes = [null, "strong", unclear ? null : "change"];
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, label, element("small", {}, meaning)),
    ...cells.map((cell, i) => element("td", { class: classes[i] }, cell)),
  );
}

/** One row per run, below the mean of its seeds if there are several. */
function comparisonTable() {
  const rows = GROUPS.flatMap((group) => (group.runs.length > 1 ? [groupRow(group), ...group.runs.map(seedRow)] : group.runs.map(runRow)));
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      { class: "figures comparison" },
      caption("Held-out figures in percent after training. Below: the change since base in points, or the range over seeds."),
      element("thead", {}, headRow("run", "steps", ...HEADLINE.map(([label]) => label), "time of all steps")),
      element("tbody", {}, ...rows),
    ),
  );
}

/** The final figures over their changes since base. */
function runRow(run) {
  const [base, final] = [headline(run, "base"), headline(run, "final")];
  const cells = final.map((value, i) => {
    const change = value === null || base[i] === null ? null : value - base[i];
    return element("td", {}, element("b", {}, figure(value, "%")), element("small", {}, signed(change, "%")));
  });
  const seconds = trainingSeconds(run);
  const name = element("th", { scope: "row" }, run.name);
  const steps = element("td", {}, String(lastStep(run) ?? "–"));
  return element("tr", {}, name, steps, ...cells, element("td", {}, seconds === null ? "–" : duration(seconds)));
}

function seedRow(run) {
  return fill(runRow(run), { class: "seed" }, []);
}

/** Means over a group's runs, over their lowest and highest. */
function groupRow(group) {
  const finals = group.runs.map((run) => headline(run, "final"));
  const cells = HEADLINE.map((_, i) => {
    const values = finals.map((final) => final[i]).filter((value) => value !== null);
    if (values.length === 0) return element("td", {}, "–");
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const range = `${figure(Math.min(...values), "%")} to ${figure(Math.max(...values), "%")}`;
    return element("td", {}, element("b", {}, figure(mean, "%")), element("small", {}, range));
  });
  return element("tr", {}, element("th", { scope: "row" }, groupLabel(group)), element("td", {}, ""), ...cells, element("td", {}, ""));
}
