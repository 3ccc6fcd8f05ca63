"""A procedural world of small Python problems on which a small model can be trained in minutes."""

from data_pipeline.micro.forms import FORMS, FUNCTION, HARD, STREAM, Form
from data_pipeline.micro.generate import problems
from data_pipeline.micro.transcripts import Transcript, WarmStart, warm_start
from data_pipeline.micro.vocabulary import words

__all__ = ["FORMS", "FUNCTION", "HARD", "STREAM", "Form", "Transcript", "WarmStart", "problems", "warm_start", "words"]
