"""What is smaller in a rehearsal than in the run that is rehearsed: width, layers, lengths, questions and steps.

All else stays: method, mesh, precision, optimizer, samples and suites of a question, the judge, and what is saved.
"""

import math
from dataclasses import replace

from codea1_jax.config import Config
from codea1_jax.config.presets import by_key
from codea1_jax.models.architecture import Architecture

STEPS = 3  # one before each stop, and one to the end
QUESTIONS = 2  # of a step
LAYERS, WIDTH, INNER, HEAD = 2, 16, 32, 8
RESPONSE = 16
# Most real prompts are shorter. With a response they fill a row of 512, or of 1,024.
CODE_PROMPT, TEST_PROMPT = 496, 1008
LONGEST = {
    **{"rollout.code_prompt_tokens": CODE_PROMPT, "rollout.test_prompt_tokens": TEST_PROMPT},
    **{"rollout.code_tokens": RESPONSE, "rollout.test_tokens": RESPONSE},
    **{"rollout.prefill_tokens": 1024, "rollout.block": 8},
    **{"code.packing.row_length": 512, "code.packing.micro_batch_tokens": 512, "code.packing.logit_chunk": 128},
    **{"test.packing.row_length": 1024, "test.packing.micro_batch_tokens": 1024, "test.packing.logit_chunk": 128},
    **{"eval.samples": 1, "eval.suites": 1, "warm_start.steps": 20},
}


def shrunk_shape(shape: Architecture, mesh: tuple[int, int, int]) -> Architecture:
    """A shape of the same heads and vocabulary that the mesh (replica, fsdp, tensor) divides if it divides this one."""
    _, fsdp, tensor = mesh
    layers = min(LAYERS, shape.num_layers)
    return replace(
        shape,
        hidden_size=math.lcm(WIDTH, fsdp),
        intermediate_size=math.lcm(INNER, tensor),
        num_layers=layers,
        layers_without_rope=(layers - 1,) if shape.layers_without_rope else (),
        head_dim=HEAD,
    )


def shrink(config: Config, shards: int) -> list[str]:
    """Overrides under which a run of this configuration takes minutes on a laptop.

    shards: parts in which the mesh splits a batch.
    """
    flat = by_key(config.model_dump(mode="json"))
    smaller = {key: most for key, most in LONGEST.items() if flat.get(key, 0) > most}
    rows = max(2 * shards, 16)
    if config.rollout.rows > rows:
        smaller |= {"rollout.rows": rows, "rollout.cache_tokens": "null"}
    if config.train.questions > QUESTIONS:
        smaller["train.questions"] = QUESTIONS
    for name, section in (("code", config.code), ("test", config.test)):
        several = section.grpo.mini_batch_questions < config.train.questions
        smaller[f"{name}.grpo.mini_batch_questions"] = 1 if several else QUESTIONS
    often = {"train.steps": STEPS, "checkpoint.every": 1, "run.wandb": "null"}
    if config.eval.every:
        often["eval.every"] = STEPS
    return [f"{key}={value}" for key, value in {**smaller, **often}.items()]
