"""Code-A1 in JAX: a Code LLM and a Test LLM trained against each other (arXiv 2603.15611)."""

import os

# transformers warns that torch is missing, but only its tokenizers are used here. Must be set before it is imported.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
