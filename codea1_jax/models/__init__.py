"""Language models in Flax: the decoder, its attention, token log-probabilities, weights and sharding."""

__all__ = [
    "ahead",
    "architecture",
    "attention",
    "compiling",
    "decoder",
    "families",
    "flops",
    "gathers",
    "logprobs",
    "lora",
    "policy",
    "published",
    "sharding",
    "stored",
    "tokenizer",
    "weights",
]
