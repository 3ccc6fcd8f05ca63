"""What the models are asked: the built-in prompts, a dataset's own, or a user's."""

from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from codea1_jax.common.errors import UserError
from codea1_jax.config.refusals import describe
from codea1_jax.config.section import Section

# The fields that a template must show, and those that it may show as well.
FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "code": (("question",), ("entry_point",)),
    "test": (("question", "program"), ("entry_point", "suite_size")),
    "black_box": (("question",), ("entry_point", "suite_size")),
    "sft": (("question", "program"), ("entry_point", "suite_size")),
    "script": (("question",), ("entry_point",)),
    "function": (("program",), ("entry_point", "description")),
    "another": ((), ("entry_point",)),
}


class Template(Section):
    """A prompt for one purpose. A file of templates has any of code, test, black_box, sft, script, function and
    another. Fields are in braces, as in {question}; {{ is a brace.
    """

    system: str | None = Field(default=None, description="the system message")
    user: str = Field(..., description="the user message")

    def fields(self) -> list[str]:
        parts = [part for text in (self.system or "", self.user) for part in Formatter().parse(text)]
        return [
            f"{name}{'!' if conversion else ''}{spec or ''}" for _, name, spec, conversion in parts if name is not None
        ]


class Templates(Section):
    """A file of templates in place of the built-in prompts, which serve where it has none."""

    code: Template | None = Field(
        default=None, description="of a program, HumanEval+ and MBPP+ included; may show {question}, {entry_point}"
    )
    test: Template | None = Field(
        default=None, description="of a suite; {question}, {program}, {entry_point}, {suite_size}"
    )
    black_box: Template | None = Field(default=None, description="of a suite without the program; as test")
    sft: Template | None = Field(default=None, description="of a suite by method.test_prompt=short, as by sft; as test")
    script: Template | None = Field(default=None, description="of a program of BigCodeBench; {question}")
    function: Template | None = Field(
        default=None, description="of UnLeakedTestBench's first test; {program}, {entry_point}, {description}"
    )
    another: Template | None = Field(
        default=None, description="of each further test, without a system's part; {entry_point}"
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        try:
            tree = yaml.safe_load(Path(given).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ValueError(f"{given}: {' '.join(str(getattr(error, 'strerror', None) or error).split())}") from error
        if not isinstance(tree, dict):
            raise ValueError(f"{given}: templates are a mapping of {', '.join(FIELDS)}")
        return tree

    @model_validator(mode="after")
    def _show_what_is_needed(self) -> "Templates":
        for name, template in self.given().items():
            needed, optional = FIELDS[name]
            known = (*needed, *optional)
            try:
                fields = template.fields()
            except ValueError as error:
                raise ValueError(f"{name}: {error}; write {{{{ for a brace") from error
            if unknown := [field for field in fields if field not in known]:
                raise ValueError(f"{name}: there is no field {{{unknown[0]}}}; there are {', '.join(known)}")
            if missing := [field for field in needed if field not in fields]:
                raise ValueError(f"{name}: it must show {{{missing[0]}}}")
        if self.another is not None and self.another.system is not None:
            raise ValueError("another: a conversation has its system's part at the beginning; leave it out")
        return self

    def given(self) -> dict[str, Template]:
        return {name: template for name in FIELDS if (template := getattr(self, name)) is not None}


BUILT_IN_TEMPLATES = Templates()


def read_templates(path: str) -> Templates:
    """The templates of a file. Raises UserError for a file that cannot be read, or templates that cannot be used."""
    try:
        return Templates.model_validate(path)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"--templates: {f'{key}: ' if key else ''}{describe(first)}") from error


class PromptsConfig(Section):
    """What the models are asked."""

    style: Literal["plain", "chat"] = Field(default="chat", description="plain text (micro), or the chat template")
    source: Literal["built_in", "dataset"] = Field(
        default="built_in",
        description="dataset: each row's own `prompt`, a list of {role, content}, asks the Code LLM; benchmarks "
        "without it use the built-in prompts",
    )
    templates: Templates = BUILT_IN_TEMPLATES

    @model_validator(mode="before")
    @classmethod
    def _style_alone(cls, given: Any) -> Any:
        return {"style": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _are_chats(self) -> "PromptsConfig":
        if self.style == "plain" and (self.source == "dataset" or self.templates.given()):
            raise ValueError(
                "prompts=plain: plain texts are neither a dataset's nor made by templates; leave these out"
            )
        return self
