"""Writes docs/configuration.md: every key of the typed configuration, with its type, its default and its meaning."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from codea1_jax.config import Config
from codea1_jax.config.reference import ConfigSection, sections

TARGET = Path(__file__).parent.parent / "docs" / "configuration.md"

HEAD = """# Configuration reference

<!-- Written by scripts/write_config_reference.py from codea1_jax/config/; a test fails if it is out of date. -->

This page lists every key of a run. A preset is a YAML file with these keys; `key=value` after a preset's name sets one:

```bash
codea1 train micro/a1 rollout.samples=4 train.steps=20 --dry-run
```

A preset is named `MODEL/METHOD`, or `MODEL/METHOD_HARDWARE` if it is for specific hardware: `micro/a1`, `7b/golden`,
`7b/a1_v5e`. `codea1 presets MODEL` lists those of a model. You can also give the path of your own YAML file. Presets of
Qwen's models save after every step (`checkpoint.every=1`), because a stop drops the step it interrupts; those of `sft`,
whose steps are short, after every tenth.

`codea1 train --help-config` prints this reference, `--help-config rollout` one section of it.
`--dry-run` prints the whole resolved configuration, and loading its output gives the same configuration. A preset's key
`compose` lists presets to start from: later ones override earlier ones, the file overrides them, and `key=value`
overrides everything. Unknown keys and values of the wrong type are errors.

`code` and `test` are the learners of the two policies and have the same keys. *Required* means that a preset must set
the key. "none" is written `null`.
"""


def page(schema: type[BaseModel] = Config) -> str:
    """The whole page, in Markdown."""
    return "\n".join([HEAD, *(_section(section) for section in sections(schema) if section.keys)])


def _section(section: ConfigSection) -> str:
    title = re.sub(r"^code\.", "code, test: ", section.prefix).replace("templates.code", "templates").rstrip(".: ")
    lines = [f"## {title or 'The run as a whole'}", "", section.meaning, ""]
    lines += ["| key | values | default | |", "| --- | --- | --- | --- |"]
    for key in section.keys:
        cells = (f"`{key.name}`", key.values, key.default or "*required*", key.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
