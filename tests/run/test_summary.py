"""What a run concludes of itself: better, worse, or that nobody can tell."""

import pytest

from codea1_jax.run.summary import conclusions, summarize

UNKNOWN = "Whether the programs are correct more often cannot be told from chance"


def line(programs: tuple[float, float, float], tests: tuple[float, float, float] | None = None) -> dict[str, float]:
    figures = {"avg_at_n": programs} | ({} if tests is None else {"test_validity": tests})
    ends = ("", "_low", "_high")
    return {
        f"eval/{name}{end}": value for name, values in figures.items() for end, value in zip(ends, values, strict=True)
    }


@pytest.mark.parametrize(
    ("first", "last", "says"),
    [
        # margins by hand: sqrt(3^2 + 4^2) = 5, half of each interval's width being 3 and 4
        ((10.0, 7.0, 13.0), (15.1, 11.1, 19.1), "The programs are correct more often: +5.1 ± 5.0 points."),
        ((15.1, 12.1, 18.1), (10.0, 6.0, 14.0), "The programs are correct less often: -5.1 ± 5.0 points."),
        ((10.0, 7.0, 13.0), (14.9, 10.9, 18.9), f"{UNKNOWN}: "),
        ((25.0, 0.0, 50.0), (25.0, 0.0, 50.0), f"{UNKNOWN}: "),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), "None of the programs is correct, before training or after: "),
        # one held-out question
        ((25.0, 25.0, 25.0), (0.0, 0.0, 0.0), f"{UNKNOWN}: -25.0 points."),
    ],
)
def test_a_change_is_told_from_chance_by_both_intervals(first, last, says):
    (sentence,) = conclusions(line(first), line(last))
    assert sentence.startswith(says)


def test_each_role_has_its_sentence_and_a_single_evaluation_has_none():
    first, last = line((0, 0, 1), (5, 4, 6)), line((50, 49, 51), (5, 4, 6))
    assert [sentence.partition(":")[0] for sentence in conclusions(first, last)] == [
        "The programs are correct more often",
        "Whether the tests are valid more often cannot be told from chance",
    ]
    assert summarize([first], {}, 8)["conclusions"] == []
    assert len(summarize([first, last], {}, 8)["conclusions"]) == 2
