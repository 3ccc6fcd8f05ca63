from codea1_jax.game.validation import validate_suite
from sandbox import Outcome, Status, encode

RAISED = Outcome(Status.RAISED, None, "ValueError")


def returned(value, inputs="[]"):
    return Outcome(Status.RETURNED, encode(value), inputs=inputs)


def validated(*rows):
    calls, reference, stated = zip(*rows, strict=True)
    return validate_suite(calls, reference, stated)


def kept(suite):
    """Call, expected value and inputs of each kept test: a test's equality leaves out its call."""
    return [(test.call, test.expected, test.inputs) for test in suite.kept]


def test_a_correct_test_is_kept_and_valid():
    suite = validated(("f(1)", returned(2, "[1]"), "2"))
    assert kept(suite) == [("f(1)", "2", "[1] ")]
    assert suite.invalid == 0


def test_a_call_that_gives_no_plain_value_is_invalid_and_dropped():
    bad = [RAISED, Outcome(Status.TIMED_OUT), Outcome(Status.NOT_PLAIN_DATA), returned(float("nan"))]
    suite = validated(*[("f(1)", outcome, "1") for outcome in bad])
    assert suite.kept == ()
    assert suite.invalid == len(bad)


def test_a_repeat_of_a_kept_call_is_invalid_and_dropped():
    once, other = ("f(1)", returned(2, "[1]"), "2"), ("f(2)", returned(2, "[2]"), "2")
    suite = validated(once, once, other)
    assert kept(suite) == [("f(1)", "2", "[1] "), ("f(2)", "2", "[2] ")]
    assert suite.invalid == 1


def test_one_input_in_many_spellings_is_one_test_by_value_and_many_by_text():
    rows = [(call, returned(2, "[1]"), "2") for call in ("f(1)", "f(0 + 1)", "f(x=1)")]
    by_value = validated(*rows)
    assert [test.call for test in by_value.kept] == ["f(1)"]
    assert by_value.invalid == 2
    by_text = validate_suite(*zip(*rows, strict=True), repeats="text")
    assert [test.call for test in by_text.kept] == ["f(1)", "f(0 + 1)", "f(x=1)"]
    assert by_text.invalid == 0


def test_a_call_whose_inputs_cannot_be_compared_counts_by_text_alone():
    rows = [("f(1)", returned(2, ""), "2")]
    assert (validated(*rows).kept, validated(*rows).invalid) == ((), 1)
    by_text = validate_suite(*zip(*rows, strict=True), repeats="text")
    assert (kept(by_text), by_text.invalid) == ([("f(1)", "2", "f(1)")], 0)


def test_two_looks_at_one_result_are_one_test_of_a_suite_and_two_of_the_book():
    look, another = ("f(1)", returned([2], "[1]"), "[2]"), ("len(f(1))", returned(1, "[1]"), "1")
    suite = validated(look, another)
    assert ([test.call for test in suite.kept], suite.invalid) == (["f(1)"], 1)
    [first], [second] = validated(look).kept, validated(another).kept
    assert first.inputs != second.inputs


def test_a_wrong_answer_is_invalid_yet_kept_with_the_reference_value():
    suite = validated(("f(1)", returned(2, "[1]"), "3"), ("f(2)", returned(4, "[2]"), "nan"))
    assert kept(suite) == [("f(1)", "2", "[1] "), ("f(2)", "4", "[2] ")]
    assert suite.invalid == 2


def test_a_test_whose_answer_has_no_value_is_invalid_and_dropped():
    suite = validated(("f(1)", returned(2, "[1]"), None), ("f(1)", returned(2, "[1]"), "2"))
    assert kept(suite) == [("f(1)", "2", "[1] ")]
    assert suite.invalid == 1


def test_a_wrong_answer_that_repeats_a_kept_call_counts_once():
    suite = validated(("f(1)", returned(2, "[1]"), "2"), ("f(1)", returned(2, "[1]"), "3"))
    assert kept(suite) == [("f(1)", "2", "[1] ")]
    assert suite.invalid == 1
