"""Programming questions from every dataset, in one shape; independent of models."""

from data_pipeline.problem import Loaded, Problem, Refusal
from data_pipeline.reading import Split, load
from data_pipeline.validate import validate

__all__ = ["Loaded", "Problem", "Refusal", "Split", "load", "validate"]
