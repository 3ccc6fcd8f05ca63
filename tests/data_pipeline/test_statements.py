"""What the statement of a competition's problem states in words, in the phrasings of the judges themselves."""

import pytest

from data_pipeline.statements import stated_tolerance, why_not_compared
from sandbox import EXACT, Tolerance


@pytest.mark.parametrize(
    ("statement", "atol", "rtol"),
    [
        ("Your answer is considered correct if its absolute or relative error does not exceed $10^{-6}$.", 1e-6, 1e-6),
        ("considered correct, if its absolute or relative error does not exceed 10 - 6.", 1e-6, 1e-6),
        ("Your answer must have an absolute or relative error of at most 1e-9.", 1e-9, 1e-9),
        ("the absolute or relative error from the true value is at most 10^{-5}. Print it.", 1e-5, 1e-5),
        ("if the relative or absolute error\nof each value is less than 10<sup>-4</sup>", 1e-4, 1e-4),
        ("if the absolute error or the relative error is at most $10^{−8}$.", 1e-8, 1e-8),
        ("The relative error of your answer should be within 10**-7.", 0.0, 1e-7),
        ("an absolute error of no more than 0.000001 is fine", 1e-6, 0.0),
        ("The answer must not contain an absolute error greater than 10⁻³.", 1e-3, 0.0),
        ("Your answer will be accepted if the error is within 10^(-6).", 1e-6, 1e-6),
        ("Answers that have 10^-6 absolute or relative error are accepted.", 1e-6, 1e-6),
        ("Any number within $10^{-4}$ of the judge's answer is accepted.", 1e-4, 1e-4),
        (
            "Let's assume that your answer is a, and the answer of the jury is b. The checker program will consider "
            "your answer correct, if the relative or absolute error \\frac{|a-b|}{max(1,b)} ≤ 10^{ - 9}.",
            1e-9,
            1e-9,
        ),
    ],
)
def test_an_error_that_a_statement_allows_is_the_tolerance(statement, atol, rtol):
    assert stated_tolerance(statement) == Tolerance(atol, rtol)


@pytest.mark.parametrize(
    "statement",
    [
        "Print the sum of all numbers from 1 to n, modulo 10^9+7.",
        "Constraints: 1 ≤ n ≤ 10^5, -10^6 ≤ a_i ≤ 10^6.",
        "Otherwise print an error message. The numbers lie between 10^-6 and 1.",
        "You win with probability 0.1 and lose with probability 0.9.",
    ],
)
def test_other_small_numbers_are_no_tolerance(statement):
    assert stated_tolerance(statement) == EXACT


@pytest.mark.parametrize(
    "statement",
    [
        "If there are multiple answers, print any of them.",
        "If there are several possible solutions, you may output any.",
        "In case of more than one valid answer any is accepted.",
        "Any correct answer will be accepted.",
        "Print the vertices of the cycle in any order.",
        "This is an interactive problem.",
    ],
)
def test_a_statement_that_accepts_several_answers_is_not_compared(statement):
    assert why_not_compared(statement) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "You can choose any of the piles. Print the number of moves.",
        "Do not print any extra spaces. You can print each letter in any case.",
        "The edges are given in any order. Print the length of the longest path.",
        "For each of several queries print the answer on its own line.",
    ],
)
def test_a_statement_with_one_answer_is_compared(statement):
    assert why_not_compared(statement) is None
