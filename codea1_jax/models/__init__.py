"""Qwen2.5 in Flax: the transformer, its attention, token log-probabilities, weights and sharding."""
