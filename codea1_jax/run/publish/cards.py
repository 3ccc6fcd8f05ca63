"""The README.md of what is published: metadata that the Hub reads, and what a user must know."""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from codea1_jax.config import METHODS, Config

# Sections of a configuration that belong to its machines.
LOCAL = ("run", "checkpoint", "sandbox", "hosts", "hardware", "mesh", "offload", "warm_start_cache")
_TAGS = ["code", "reinforcement-learning", "code-a1"]
_ROLES = {
    "code": "A **Code LLM**: it writes programs.",
    "test": "A **Test LLM**: it is shown a program and writes tests to break it.",
}
_MODEL = """# {repo}

{roles} Trained by [Code-A1](https://arxiv.org/abs/2603.15611): {method}.

## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo}")
model = AutoModelForCausalLM.from_pretrained("{repo}")
```

```bash
vllm serve {repo}
codea1 solve problem.md --model {code} --test-model {test}
```

The last command (package `codea1-jax`) lets tests of one model choose among programs of the other.

## Training

{training}

`training_config.yaml` has every setting.

## Evaluation

{evaluation}
"""
_ROLLOUTS = """# {repo}

What models wrote while [Code-A1](https://arxiv.org/abs/2603.15611) trained them ({method}): programs, the test suites
written against them, and the verdict of every test.

```python
from datasets import load_dataset

suites = load_dataset("{repo}", "suites", split="train")
```

{table}

A suite belongs to the program `program_index` of the same `step` and `question_id`. `tests` are those that hold under
the question's `reference`; `reward` and `advantage` are what the models learned from.
"""


def is_local(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("/", "~", "file:"))


def public(value: Any) -> Any:
    """A configuration, or a part of it: of a path of this machine only the name stays."""
    if isinstance(value, Mapping):
        return {key: public(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(public, value)]
    return Path(value).name if is_local(value) else value


def model_card(
    config: Config, policy: str, repos: Mapping[str, str], step: int, metrics: Sequence[Mapping[str, Any]], licence: str
) -> str:
    """The card of a run's policy. repos: of every policy; metrics: the lines that were logged up to the step."""
    method, model = METHODS[config.method.name], config.models[policy]
    base = model.pretrained
    on_hub = base is not None and re.fullmatch(r"[\w.-]+/[\w.-]+", base) and not Path(base).exists()
    learner, lora = config.learners[policy], config.lora
    rows = {
        "method": f"`{config.method.name}`: {method.summary}",
        "base model": "trained from scratch" if base is None else f"`{base}`",
        "started from": None if learner.start is None else f"`{learner.start}`",
        "parameters trained": "all" if lora is None else f"adapters of rank {lora.rank}, merged into these weights",
        "questions": f"`{config.data.source}`, {config.train.questions} a step",
        "programs of a question, suites of a program": f"{config.rollout.samples}, {config.rollout.suites}",
        "steps": step,
        "software": f"codea1-jax {version('codea1-jax')}",
    }
    front = {"license": licence, "library_name": "transformers", "pipeline_tag": "text-generation"}
    return _front({**front, **({"base_model": base} if on_hub else {}), "tags": _TAGS}) + _MODEL.format(
        repo=repos[policy],
        roles=" ".join(_ROLES[role] for role, of in method.roles.items() if of == policy),
        method=method.summary,
        code=repos.get("code", "MODEL"),
        test=repos.get(method.roles.get("test", "test"), "MODEL"),
        training=_table(("", ""), [(name, str(value)) for name, value in rows.items() if value is not None]),
        evaluation=evaluation_table(metrics, config.eval.samples),
    )


def evaluation_table(metrics: Sequence[Mapping[str, Any]], samples: int) -> str:
    lines = [line for line in metrics if line["kind"] == "eval"]
    names = [name for name in (lines[-1] if lines else {}) if f"{name}_low" in lines[-1]]
    if not names:
        return "The run was not evaluated."
    chosen = [lines[0], lines[-1]] if lines[0]["step"] < lines[-1]["step"] else [lines[-1]]
    rows = []
    for name in names:
        shown = name.removeprefix("eval/").replace("avg_at_n", f"avg@{samples}").replace("_at_", "@").replace("_", " ")
        found = [[line.get(f"{name}{end}") for end in ("", "_low", "_high")] for line in chosen]
        numbers = [[float("nan") if value is None else value for value in each] for each in found]
        rows.append((shown, *("{:.1f} ({:.1f} to {:.1f})".format(*each) for each in numbers)))
    return "\n\n".join(
        (
            "By the run itself, on questions that it did not train on: percent, with 95% intervals by bootstrap over "
            "questions. The run's pair plays both roles.",
            _table(("", *(f"step {line['step']}" for line in chosen)), rows),
        )
    )


def rollouts_card(repo: str, method: str, counts: Mapping[str, int], licence: str | None) -> str:
    configs = [{"config_name": name, "data_files": f"{name}.parquet"} for name in counts]
    front = _front({**({"license": licence} if licence else {}), "tags": _TAGS, "configs": configs})
    table = _table(("configuration", "rows"), [(name, f"{count:,}") for name, count in counts.items()])
    return front + _ROLLOUTS.format(repo=repo, method=METHODS[method].summary, table=table)


def _front(metadata: Mapping[str, Any]) -> str:
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells])
