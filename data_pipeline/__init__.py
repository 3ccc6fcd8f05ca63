"""Programming questions from every source, in one shape; knows no models."""

from data_pipeline.problem import Loaded, Problem, Refusal

__all__ = ["Loaded", "Problem", "Refusal"]
