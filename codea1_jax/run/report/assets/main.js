// Puts the page together.

function masthead() {
  byId("title").textContent = GROUPS.map((group) => group.name).join(" vs ");
  const parts = RUNS.length === 1 ? [...progressOf(RUNS[0]), ...madeOn(RUNS[0])] : [plural(RUNS.length, "run")];
  if (DATA.live) parts.push(`reloads every ${DATA.live} s`);
  byId("status").textContent = parts.join(" · ");
}

function progressOf(run) {
  const step = lastStep(run);
  if (step === null) return ["just started: nothing has been logged yet"];
  const method = setting(run, "method", "name");
  const of = run.total_steps ? ` of ${run.total_steps}` : "";
  const ended = run.total_steps ? (run.summary.seconds ? ", finished" : DATA.live ? "" : unfinished(run)) : "";
  const [model, data, seed] = [setting(run, "model", "pretrained"), setting(run, "data", "source"), setting(run, "run", "seed")];
  const what = method ? [method, model && model !== "null" ? model.split("/").at(-1) : "a model from scratch", data ?? "", `seed ${seed}`] : [];
  return [...what.filter(Boolean), `step ${step}${of}${ended}`];
}

function unfinished({ versions }) {
  const command = (versions.command ?? "").replace(/ --resume\b/, "");
  return `, not finished; to continue: ${command ? `${command} --resume` : "the same command with --resume"}`;
}

function madeOn(run) {
  const devices = Object.entries(run.versions.devices ?? {}).map(([kind, count]) => `${count} × ${kind}`);
  return devices.length ? [devices.join(", ")] : [];
}

function setupSection(section) {
  for (const run of RUNS) {
    const rows = versionRows(run.versions);
    section.append(
      RUNS.length > 1 ? element("h3", {}, run.name) : "",
      rows.length
        ? element("div", { class: "scroll" }, element("table", { class: "versions" }, element("tbody", {}, ...rows)))
        : emptyNote("No versions were recorded."),
      run.config
        ? element("details", { class: "fold" }, element("summary", {}, "Resolved configuration"), element("pre", { class: "raw", tabindex: 0 }, run.config))
        : emptyNote("No configuration was recorded."),
    );
  }
}

/** Nested objects become one row per leaf. */
function versionRows(versions, prefix = "") {
  return Object.entries(versions).flatMap(([name, value]) =>
    value !== null && typeof value === "object"
      ? versionRows(value, `${prefix}${name} · `)
      : [element("tr", {}, element("th", { scope: "row" }, prefix + name), element("td", {}, String(value)))],
  );
}

masthead();
resultsSection(byId("results"));
if (lastStep(RUNS[0]) !== null || RUNS.length > 1) byId("evaluation").before(toolbar());
evaluationSection(byId("evaluation"));
trainingSection(byId("training"));
timeSection(byId("time"));
rolloutsSection(byId("rollouts"));
setupSection(byId("setup"));
if (RUNS.every(isSupervised)) {
  byId("training").querySelector(".lead").textContent = "The model imitates golden tests. The log-probability of held-out ones should rise; a step's loss varies with its questions.";
}
if (location.hash.startsWith("#rollouts?")) byId("rollouts").scrollIntoView();
