// Line differences between two programs.

/** [[" " | "-" | "+", line], ...] by a longest common subsequence of lines. */
function diffLines(before, after) {
  const [a, b] = [before, after].map((text) => text.replace(/\n$/, "").split("\n"));
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push([" ", a[i]]);
      [i, j] = [i + 1, j + 1];
    } else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}

function diffBlock(before, after) {
  const kinds = { " ": "same", "-": "removed", "+": "added" };
  const lines = diffLines(before, after).map(([sign, line]) =>
    element("span", { class: `diff-line ${kinds[sign]}` }, `${sign === "-" ? "−" : sign} ${line}\n`),
  );
  return element("pre", { class: "code diff", tabindex: 0, role: "region", "aria-label": "Difference" }, element("code", {}, ...lines));
}

/** Two pickers of a step and a program of the same question, and the difference between the two. */
function diffPanel(run, questionId, step) {
  const versions = run.rollouts.steps.flatMap((one) =>
    one.questions
      .filter((question) => question.question_id === questionId)
      .flatMap((question) => question.programs.map((program) => ({ step: one.step, program }))),
  );
  const other = versions.findLast((one) => one.step !== step);
  if (!other) return null;
  const earlier = Math.min(step, other.step);
  const later = Math.max(step, other.step);
  const [left, right] = [versionPicker(versions, earlier, "From"), versionPicker(versions, later, "To")];
  const place = element("div");
  const draw = () => {
    const [before, after] = [left, right].map((label) => versions[Number(label.querySelector("select").value)].program);
    const same = before.program === after.program;
    place.replaceChildren(same ? emptyNote("These two programs are the same.") : diffBlock(before.program ?? "", after.program ?? ""));
  };
  for (const label of [left, right]) label.addEventListener("change", draw);
  draw();
  return element(
    "details",
    { class: "fold" },
    element("summary", {}, "Compare programs of two steps"),
    element("div", { class: "pickers" }, left, right),
    place,
  );
}

/** Starts at the step's most rewarded program. */
function versionPicker(versions, step, label) {
  const ofStep = versions.filter((one) => one.step === step);
  const best = ofStep.reduce((a, b) => ((b.program.reward ?? 0) > (a.program.reward ?? 0) ? b : a));
  const options = versions.map((one, i) =>
    element("option", { value: i, selected: one === best }, `step ${one.step}, program ${one.program.index}, reward ${figure(one.program.reward, "score")}`),
  );
  return element("label", {}, label, element("select", {}, ...options));
}
