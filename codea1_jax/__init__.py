"""Code-A1 in JAX: a Code LLM and a Test LLM trained against each other (arXiv 2603.15611)."""
