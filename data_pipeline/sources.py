"""The list of all datasets. To add one, write a module that defines a `Dataset` and add it here."""

from collections.abc import Sequence

from data_pipeline import bigcodebench, evalplus, kodcode, micro, problem_files, unleaked
from data_pipeline.dataset import Dataset, Format

DATASETS: tuple[Dataset, ...] = (
    kodcode.DATASET,
    problem_files.DATASET,
    bigcodebench.DATASET,
    evalplus.HUMANEVAL_PLUS,
    evalplus.MBPP_PLUS,
    unleaked.DATASET,
    micro.DATASET,
)

# Without repeats, in the order in which `find_format` tries them.
FORMATS: tuple[Format, ...] = tuple(dict.fromkeys(each for dataset in DATASETS for each in dataset.formats))


def find_dataset(name: str) -> Dataset:
    """The dataset of that name. Raises ValueError if there is none."""
    for dataset in DATASETS:
        if dataset.name == name:
            return dataset
    raise ValueError(f"unknown dataset {name!r}; there are {', '.join(dataset.name for dataset in DATASETS)}")


def find_format(rows: Sequence[object]) -> Format | None:
    """The format of the first row that has a known one."""
    fields = [row.keys() for row in rows if isinstance(row, dict)]
    return next((each for row in fields for each in FORMATS if each.fields <= row), None)
