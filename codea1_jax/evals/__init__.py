"""Evaluation: how good the Code LLM's programs and the Test LLM's tests are on questions that were not trained on."""
