"""The micro world's streams: what is taught is read back, and a whole run of them is played."""

import re

import pytest
from tiny_run import SETTINGS, finish, start_codea1, without_times

from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.game.tasks import stream
from codea1_jax.run.telemetry import rollouts_path
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


@pytest.mark.long
def test_suites_of_a_run_break_programs_and_both_are_evaluated(tmp_path):
    arguments = ("train", "micro-stream/a1", *SETTINGS, "model.architecture.words=stream")
    finish(start_codea1(*arguments, f"run.directory={tmp_path}"))
    records = [record for step in range(1, 5) for record in read_lines(rollouts_path(tmp_path, step))]
    programs = [program for record in records for program in record["programs"]]
    verdicts = {test["verdict"] for program in programs for suite in program["suites"] for test in suite["tests"]}
    assert {"passed", "failed"} <= verdicts
    lines = without_times(tmp_path)
    assert max(line["code/reward"] for line in lines if line["kind"] == "train") > 0
    (end,) = (line for line in lines if (line["kind"], line["step"]) == ("eval", 4))
    assert {"eval/avg_at_n", "eval/test_validity", "eval/kill_rate", "eval/mut_at_5"} < end.keys()
