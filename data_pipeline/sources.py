"""The formats of rows that are known, and the datasets that `codea1 data prepare` makes."""

from collections.abc import Iterable
from dataclasses import dataclass

from data_pipeline import (
    apps,
    bigcodebench,
    code_contests,
    evalplus,
    evolvecoder,
    kodcode,
    livecodebench,
    problem_files,
    sandbox_fusion,
    unleaked,
)
from data_pipeline.row_format import Format

# To add a format, write a module that defines it and add it here. `find_format` tries them in this order.
FORMATS: tuple[Format, ...] = (
    kodcode.FORMAT,
    kodcode.AUTHORS_FORMAT,
    problem_files.FORMAT,
    bigcodebench.FORMAT,
    *evalplus.FORMATS,
    unleaked.FORMAT,
    *code_contests.FORMATS,
    *apps.FORMATS,
    livecodebench.FORMAT,
    sandbox_fusion.FORMAT,
    evolvecoder.FORMAT,
)


def find_format(rows: Iterable[object]) -> Format | None:
    return next((each for row in rows if isinstance(row, dict) for each in FORMATS if each.fits(row)), None)


@dataclass(frozen=True)
class Recipe:
    """How a dataset to train on is prepared."""

    name: str
    """of the dataset, which is also its problems' `source`"""
    source: str = ""
    """files, in the form that `local_path` and `rows.files` take; empty: the user names them"""
    difficulties: tuple[str, ...] = ()
    """those to keep; empty for all"""
    against: tuple[str, ...] = ()
    """evaluation sets that it may not overlap, as sources"""
    published: int | None = None
    """how many questions the paper trains on"""


_EVALPLUS = ("evalplus/humanevalplus", "evalplus/mbppplus")

RECIPES = {
    # What the presets of Qwen2.5-Coder train on: hard questions, none of which is in the sets that validate them.
    "kodcode": Recipe(
        "kodcode", source="KodCode/KodCode-V1/data/train-*", difficulties=("hard",), against=_EVALPLUS, published=9_688
    ),
    # Programs that read standard input. Statements of competitions share whole sentences about their format, so only
    # dates keep these apart from LiveCodeBench: it begins in May 2023.
    "code_contests": Recipe("code_contests", source="deepmind/code_contests/data/train-*", against=_EVALPLUS),
    "code_contests_plus": Recipe(
        "code_contests_plus", source="ByteDance-Seed/Code-Contests-Plus/ccplus_1x/*", against=_EVALPLUS
    ),
    "taco": Recipe("taco", source="BAAI/TACO/ALL/train-*", against=_EVALPLUS),
    "apps": Recipe("apps", source="codeparrot/apps/train.jsonl", against=_EVALPLUS),
    "deepcoder": Recipe(
        "deepcoder", source="agentica-org/DeepCoder-Preview-Dataset/primeintellect/train-*", against=_EVALPLUS
    ),
    "problems": Recipe("problems"),
}
