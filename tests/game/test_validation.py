from codea1_jax.game.validation import validate_suite
from sandbox import Outcome, Status, Test, encode

RAISED = Outcome(Status.RAISED, None, "ValueError")


def returned(value):
    return Outcome(Status.RETURNED, encode(value))


def validated(*rows):
    calls, reference, stated = zip(*rows, strict=True)
    return validate_suite(calls, reference, stated)


def test_a_correct_test_is_kept_and_valid():
    suite = validated(("f(1)", returned(2), "2"))
    assert suite.kept == (Test("f(1)", "2"),)
    assert suite.invalid == 0


def test_a_call_that_gives_no_plain_value_is_invalid_and_dropped():
    bad = [RAISED, Outcome(Status.TIMED_OUT), Outcome(Status.NOT_PLAIN_DATA), returned(float("nan"))]
    suite = validated(*[("f(1)", outcome, "1") for outcome in bad])
    assert suite.kept == ()
    assert suite.invalid == len(bad)


def test_a_repeat_of_a_kept_call_is_invalid_and_dropped():
    suite = validated(("f(1)", returned(2), "2"), ("f(1)", returned(2), "2"), ("f(2)", returned(2), "2"))
    assert suite.kept == (Test("f(1)", "2"), Test("f(2)", "2"))
    assert suite.invalid == 1


def test_one_input_in_many_spellings_is_one_test_by_value_and_many_by_text():
    rows = [(call, Outcome(Status.RETURNED, "2", inputs="[1]"), "2") for call in ("f(1)", "f(0 + 1)", "f(x=1)")]
    by_value = validated(*rows)
    assert [test.call for test in by_value.kept] == ["f(1)"]
    assert by_value.invalid == 2
    by_text = validate_suite(*zip(*rows, strict=True), repeats="text")
    assert [test.call for test in by_text.kept] == ["f(1)", "f(0 + 1)", "f(x=1)"]
    assert by_text.invalid == 0


def test_two_looks_at_one_result_are_one_test():
    rows = [
        (call, Outcome(Status.RETURNED, value, inputs="[1]"), value)
        for call, value in (("f(1)", "[2]"), ("len(f(1))", "1"))
    ]
    assert [test.call for test in validated(*rows).kept] == ["f(1)"]


def test_a_wrong_answer_is_invalid_yet_kept_with_the_reference_value():
    suite = validated(("f(1)", returned(2), "3"), ("f(2)", returned(4), None))
    assert suite.kept == (Test("f(1)", "2"), Test("f(2)", "4"))
    assert suite.invalid == 2


def test_a_wrong_answer_that_repeats_a_kept_call_counts_once():
    suite = validated(("f(1)", returned(2), "2"), ("f(1)", returned(2), "3"))
    assert suite.kept == (Test("f(1)", "2"),)
    assert suite.invalid == 1
