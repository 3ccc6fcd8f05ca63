"""The micro world's streams: what the warm start teaches is read back."""

import re

from codea1_jax.config import Config, load
from codea1_jax.game.tasks import stream
from codea1_jax.training.policies import make_policy
from codea1_jax.training.warm_start import ANSWER_WEIGHT, transcript_example
from data_pipeline import micro
from sandbox import SuiteTest

(PROBLEM,) = micro.problems("train", 1, 0, micro.STREAM)


def test_what_the_warm_start_teaches_is_read_back_and_fits_the_lengths_of_the_preset():
    config = load(Config, "micro-stream/a1")
    tokenizer, settings, lengths = make_policy(config.model).tokenizer, config.warm_start, config.rollout
    assert settings is not None
    for transcript in micro.warm_start(300, 1, form=micro.STREAM):
        example = transcript_example(transcript, tokenizer, settings, micro.STREAM)
        ends = [i + 1 for i, token in enumerate(example.learned) if token in tokenizer.eos_ids]
        assert len(ends) == 2 and ends[1] == len(example.learned)
        assert ends[0] <= lengths.code_tokens and ends[1] - ends[0] <= lengths.test_tokens
        program, suite = (tokenizer.decode(example.learned[a : b - 1]) for a, b in ((0, ends[0]), (ends[0], ends[1])))
        assert stream.read_program(program, PROBLEM, "paper") == transcript.program
        tests = [re.fullmatch(r"```input\n(.*)\n```\n```output\n(-?\d+)\n```", test) for test in transcript.tests]
        expected = tuple(SuiteTest(f"{test[1]}\n", f"{test[2]}\n") for test in tests if test)
        assert len(expected) == 3 and stream.suite_in(suite, PROBLEM).tests == expected
        weighed = zip(example.learned[ends[0] :], example.weights[ends[0] :], strict=True)
        answers = tokenizer.decode([token for token, weight in weighed if weight == ANSWER_WEIGHT])
        assert re.findall(r"-?\d+", answers) == [test.stated.strip() for test in expected]
