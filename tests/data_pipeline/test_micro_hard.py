"""The harder micro world, against a reader of its English questions that shares no code with it."""

import re
from collections.abc import Callable

import pytest

from data_pipeline import Problem, micro
from tests.data_pipeline.test_micro import behaviour, compile_function, encoded_lengths, holds


def understand(question: str) -> Callable:
    """What a question asks for, read only from its words."""
    if match := re.fullmatch(
        r"Write f\(x, y\): return (.+?) if x is (.+?), (.+) if y is (.+), otherwise (.+)\.", question
    ):
        first, of_x, second, of_y, third = match.groups()

        def nested(x, y):
            chosen = first if holds(of_x, {"x": x}) else second if holds(of_y, {"x": y}) else third
            return eval(chosen, {"x": x, "y": y})

        return nested
    pattern = (
        r"Write f\(xs\): start with (\d), add (each item|1 for each item) that is (.+), stop if the total is (.+)\."
    )
    if match := re.fullmatch(pattern, question):
        start, added, condition, stop = match.groups()

        def loop(xs):
            totals = [int(start)]
            for x in xs:
                if len(totals) == 1 or not holds(stop, {"x": totals[-1]}):
                    totals.append(totals[-1] + (holds(condition, {"x": x}) and (x if added == "each item" else 1)))
            return totals[-1]

        return loop
    pattern = r"Write f\(s\), where n is the number of ([ab]): return (.+) if (n|the length) is (.+), otherwise (.+)\."
    match = re.fullmatch(pattern, question)
    assert match, question
    letter, then, subject, condition, otherwise = match.groups()

    def text(s):
        n, length = sum(each == letter for each in s), sum(1 for _ in s)
        met = holds(condition, {"x": n if subject == "n" else length})
        return eval(then if met else otherwise, {"n": n, "s": s, "len": len})

    return text


@pytest.fixture(scope="module")
def train() -> tuple[Problem, ...]:
    return micro.problems("train", 250, 0, micro.HARD)


@pytest.fixture(scope="module")
def heldout() -> tuple[Problem, ...]:
    return micro.problems("heldout", 250, 0, micro.HARD)


@pytest.fixture(scope="module")
def transcripts() -> tuple[micro.Transcript, ...]:
    return micro.warm_start(2500, 0, form=micro.HARD)


def test_solutions_do_what_their_questions_say_on_every_probe(train, heldout):
    for problem in train + heldout:
        expected = behaviour(understand(problem.question), problem.probe_calls)
        assert behaviour(compile_function(problem.solution), problem.probe_calls) == expected, problem


def test_golden_tests_and_the_warm_start_tests_are_true_of_their_questions(train, transcripts):
    for problem in train:
        assert len(set(problem.golden_tests)) == 4
        for line in problem.golden_tests:
            exec(line, {"f": understand(problem.question)})
    for transcript in transcripts:
        for line in transcript.tests:
            exec(line, {"f": understand(transcript.question)})


def test_half_of_the_questions_have_a_bug_that_a_tenth_of_the_probes_show(train):
    """What the harder world is for: among the mutants are bugs that tests rarely find by chance."""
    with_hard, mutants = 0, 0
    for problem in train:
        right = behaviour(compile_function(problem.solution), problem.probe_calls)
        shown = []
        for mutant in problem.mutants:
            wrong = behaviour(compile_function(mutant), problem.probe_calls)
            shown.append(sum(a != b for a, b in zip(right, wrong, strict=True)) / len(right))
        assert all(shown)
        with_hard += min(shown) <= 0.1
        mutants += len(shown)
    assert with_hard > len(train) / 2
    assert mutants > 6 * len(train)


def test_mutants_differ_from_each_other_on_the_probes(train, heldout):
    for problem in train + heldout:
        programs = (problem.solution, *problem.mutants)
        assert len({behaviour(compile_function(code), problem.probe_calls) for code in programs}) == len(programs)


def test_every_family_condition_and_bug_occurs(train):
    questions = "\n".join(problem.question for problem in train)
    for words in ("f(x, y)", "f(xs)", "f(s)", "even", "odd", "exclusive", "inclusive", "the length is", "1 for each"):
        assert words in questions
    mutants = "\n".join(mutant for problem in train for mutant in problem.mutants)
    assert re.search(r"if y .*:\n        return .*\n    if x ", mutants), "a bug in the order of conditions"
    assert re.search(r"t \+= (x|1)\n    return t", mutants), "a loop that does not stop"


def test_warm_start_and_held_out_problems_share_no_question(heldout, transcripts):
    for header in ("Write f(x, y)", "Write f(xs)", "Write f(s)"):
        family = [problem for problem in heldout if problem.question.startswith(header)]
        calls = tuple({call for problem in family for call in problem.probe_calls})
        asked = {behaviour(understand(problem.question), calls) for problem in family}
        taught = {each.question for each in transcripts if each.question.startswith(header)}
        assert len(taught) > 400
        assert not asked & {behaviour(understand(question), calls) for question in taught}


def wrong(transcript: micro.Transcript) -> bool:
    """Whether the transcript's program fails one of its tests."""
    names: dict = {}
    exec(transcript.program, names)
    return not all(eval(line.removeprefix("assert "), names) for line in transcript.tests)


def test_a_minority_of_the_warm_start_programs_are_right(transcripts):
    """Two conditions, each often wrong: on three tests most wrong programs show, so the true share is lower."""
    failing = sum(map(wrong, transcripts)) / len(transcripts)
    assert 0.2 < failing < 0.6


def test_words_make_short_texts_without_loss(train, heldout, transcripts):
    lengths, used = encoded_lengths(
        micro.words(micro.HARD),
        questions={each.question for each in (*train, *heldout, *transcripts)},
        codes={each.solution for each in train + heldout} | {m for p in train for m in p.mutants},
        tests={"\n".join(each.tests) for each in transcripts},
    )
    assert lengths["questions"] <= 32
    assert lengths["codes"] <= 32
    assert lengths["tests"] <= 56
    assert set(micro.words(micro.HARD)) - used <= set(map(str, [*range(-12, 0), *range(12, 37)])), "words not needed"
