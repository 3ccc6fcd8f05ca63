"""Programming questions from every dataset, in one shape; independent of models."""

from data_pipeline.problem import BadRow, Loaded, Problem, Refusal
from data_pipeline.reading import load

__all__ = ["BadRow", "Loaded", "Problem", "Refusal", "load"]
