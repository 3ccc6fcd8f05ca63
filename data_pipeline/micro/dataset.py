"""The micro world as a dataset on disk, of a fixed size."""

from data_pipeline.dataset import Dataset, Splits
from data_pipeline.micro.generate import problems

TRAIN, HELDOUT = 4096, 512  # problems


def _splits() -> Splits:
    return {"train": problems("train", TRAIN, 0), "heldout": problems("heldout", HELDOUT, 0)}


DATASET = Dataset("micro", "the procedural micro world", generate=_splits)
