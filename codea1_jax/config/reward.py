from typing import Literal

from pydantic import Field

from codea1_jax.config.section import Section

Estimator = Literal["grpo", "centred", "rloo"]


class RewardConfig(Section):
    """Rewards of programs and suites, and their advantages. Defaults are the paper's, except `repeats` and `junk`."""

    alpha: float = Field(default=0.5, ge=0, le=1, description="weight of validity against difficulty")
    suite_size: int = Field(default=8, ge=1, description="K: tests asked for in one suite")
    difficulty: Literal["fraction", "any"] = Field(
        default="fraction",
        description="gen_fail: the fraction of the suite that fails the program, or 1 if any test does (departure)",
    )
    test_value: Literal["paper", "mutation", "shared"] = Field(
        default="paper",
        description="what a suite earns besides validity: the paper's adv, or the share of the reference's "
        "mutants that it kills (departure); shared: each mutant's credit is divided among the suites that kill it, and "
        "its advantage is computed apart from validity's",
    )
    only_right: bool = Field(
        default=False,
        description="only tests that state the right answer count as finding a bug or killing a mutant, as in mut@5 "
        "(departure); false: all valid calls, with the reference's answer",
    )
    mutants: int = Field(
        default=8,
        ge=0,
        description="test_value other than paper: at most this many mutants of a reference; a question without any has "
        "its own wrong programs in their place",
    )
    passing: Literal["fraction", "all"] = Field(
        default="fraction",
        description="a program earns the fraction of the tests that it passes, or 1 for all of them (departure)",
    )
    pool_tests: bool = Field(
        default=False,
        description="score each program on the valid tests of all its siblings (departure; never the paper's)",
    )
    repeats: Literal["value", "text"] = Field(
        default="value",
        description="a test repeats another of its suite if it has the same inputs, however its call is spelled; text: "
        "if it is written the same, as in the original (a policy learns to respell)",
    )
    junk: Literal["dropped", "invalid"] = Field(
        default="dropped",
        description="an assert outside the test language is dropped, and only the first 2 K tests are read; or it "
        "counts as an invalid test, any comparison is read as ==, and all tests are read, as in the original",
    )
    advantages: Estimator = Field(
        default="grpo",
        description="a group's rewards minus their mean: grpo divides by their standard deviation; centred does not "
        "(Dr. GRPO); rloo subtracts the mean of the others",
    )
    code: str | None = Field(
        default=None,
        description="FILE.py:FUNCTION, which maps a JudgedProgram to its reward (docs/python.md); none: the paper's",
    )
    test: str | None = Field(
        default=None, description="FILE.py:FUNCTION, which maps a JudgedSuite to its reward; none: the paper's"
    )
