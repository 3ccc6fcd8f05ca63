"""Language models in Flax: the decoder, its attention, token log-probabilities, weights and sharding."""
