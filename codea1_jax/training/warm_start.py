"""The supervised start of a model that has no pretrained weights.

One sequence teaches both roles: question, (often buggy) program, end of text, tests, end of text. It is the form
in which `prompts.plain_prompts` asks; after it the two policies part.
"""

import logging

import jax
from jax.sharding import Mesh

from codea1_jax.config import WarmStartConfig
from codea1_jax.learn import CrossEntropy, Example, Learner, weighted_example
from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.models.sharding import init_sharded
from codea1_jax.models.tokenizer import Tokenizer
from data_pipeline import micro

logger = logging.getLogger(__name__)

LOG_EVERY = 100
CALL_WEIGHT, ANSWER_WEIGHT = 0.5, 2.0  # of the loss of the tokens of a test's call, and of the answer that it states


def warm_start(
    policy: Policy, config: WarmStartConfig, seed: int, mesh: Mesh, form: micro.Form = micro.FUNCTION
) -> Params:
    """Trains the policy's model from random weights; no transcript is seen twice, none is of a held-out program."""
    logger.info("warm start: %d steps", config.steps)
    transcripts = micro.warm_start(config.steps * config.batch, seed, form=form)
    blind = [int((i + 1) * config.black_box) > int(i * config.black_box) for i in range(len(transcripts))]
    examples = [
        transcript_example(t, policy.tokenizer, config, form, white_box=not without)
        for t, without in zip(transcripts, blind, strict=True)
    ]
    learner = Learner(
        policy.model, CrossEntropy(), config.optimizer, config.packing, total_steps=config.steps, mesh=mesh
    )
    state = learner.init(init_sharded(policy.model, jax.random.key(seed), mesh))
    for done in range(1, config.steps + 1):
        batch = examples[(done - 1) * config.batch : done * config.batch]
        state, metrics = learner.update(state, None, [batch])
        if done % LOG_EVERY == 0 or done == config.steps:
            logger.info("warm start: step %d/%d, loss %.3f", done, config.steps, metrics["loss"])
    return state.params


def transcript_example(
    transcript: micro.Transcript,
    tokenizer: Tokenizer,
    config: WarmStartConfig,
    form: micro.Form,
    *,
    white_box: bool = True,
) -> Example:
    """The tokens of a transcript and what each weighs; the question's weigh nothing.

    The two ends of text are learned like the program and like a test: they are how a response stops. Without
    `white_box` the program is left out, and the end of text in its place is not learned.
    """
    end = (tokenizer.eos_ids[0],)
    pieces = [
        (tokenizer.encode(f"{transcript.question}\n"), 0.0),
        (tokenizer.encode(transcript.program) + end, config.code_weight) if white_box else (end, 0.0),
    ]
    for i, test in enumerate(transcript.tests):
        given, states, answer = test.rpartition(form.states)
        line_end = "\n" if i + 1 < len(transcript.tests) else ""
        pieces.append((tokenizer.encode(given + states), CALL_WEIGHT))
        pieces.append((tokenizer.encode(answer + line_end), ANSWER_WEIGHT))
    pieces.append((end, CALL_WEIGHT))
    tokens = [token for piece, _ in pieces for token in piece]
    return weighted_example(tokens, [weight for piece, weight in pieces for _ in piece])
