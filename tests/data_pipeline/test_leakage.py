"""Questions are kept free of the benchmarks and of golden answers."""

from dataclasses import replace

from data_pipeline import Loaded, Problem
from data_pipeline.leakage import described, drop_duplicates, drop_overlaps

THIRTEEN = "count the red apples that lie under each tall tree in the old"
PROBLEM = Problem("p", "?", "def f(x):\n    return x", "f", ("assert f('a b') == 1", "assert sorted(f([1, 2])) == [1]"))


def asking(*questions: str, source: str = "kodcode") -> tuple[Problem, ...]:
    return tuple(replace(PROBLEM, id=f"{source}/{i}", question=q, source=source) for i, q in enumerate(questions))


def reasons(loaded: Loaded) -> dict[str, str]:
    return {refusal.id: refusal.reason for refusal in loaded.refused}


def test_a_question_with_the_same_words_is_a_duplicate():
    loaded = drop_duplicates(Loaded(asking("Add two numbers.", "Add three.", "add  TWO\nnumbers")))
    assert [problem.id for problem in loaded.problems] == ["kodcode/0", "kodcode/1"]
    assert reasons(loaded) == {"kodcode/2": "same question as another: kodcode/0"}


def test_a_shared_run_of_thirteen_words_is_an_overlap_and_twelve_are_not():
    assert len(THIRTEEN.split()) == 13
    evaluation = asking(f"Please {THIRTEEN} garden", source="mbppplus")
    questions = asking(f"You should {THIRTEEN.upper()} park!", THIRTEEN.replace("old", "new"), "Unrelated.")
    loaded = drop_overlaps(Loaded(questions), evaluation)
    assert [problem.id for problem in loaded.problems] == ["kodcode/1", "kodcode/2"]
    assert reasons(loaded) == {"kodcode/0": f"overlaps with mbppplus: mbppplus/0, {THIRTEEN!r}"}


def test_a_short_evaluation_question_is_found_whole_and_without_its_code():
    evaluation = asking("Is the number prime?\nassert f(3) == True\n\ndef f(n):", source="mbppplus")
    questions = asking("Tell me: is the number PRIME or not?\n\ndef g(n):", "Is the number even?", "Is the number", "")
    loaded = drop_overlaps(Loaded(questions), evaluation)
    assert reasons(loaded) == {"kodcode/0": "overlaps with mbppplus: mbppplus/0, 'is the number prime'"}


def test_a_description_leaves_out_examples_and_lines_that_state_a_golden_test():
    question = '''def f(x):
    """Counts.

    >>> f("a  b")
    1
    >>> f("other")
    2
    >>> f("a b")
    1
    """
For example f([1,2]) gives [1].
f is pure.'''
    kept = '''def f(x):
    """Counts.

    """
f is pure.'''
    problem = replace(PROBLEM, question=question)
    assert described(problem) == replace(problem, description=kept)
    assert described(described(problem)) == described(problem)
    plain = replace(PROBLEM, question=kept)
    assert described(plain) == plain
    assert (plain.described, described(problem).described) == (kept, kept)
