"""The words of the micro world, for a word-level tokenizer with byte fallback.

They are tokens added to the 256 single bytes; the leftmost, longest match wins. Single characters such as `x`, `y`,
`.`, `]` or a newline need no word. Numbers are whole words, so arithmetic is a table to learn, without digits.
"""

from itertools import chain

from data_pipeline.micro.forms import FUNCTION, HARD, Form
from data_pipeline.micro.questions import ADDED, BETWEEN, COMPARISONS, PARITIES, REDUCTIONS

_NUMBERS = tuple(str(number) for number in (*range(-12, 0), *range(10, 37)))
_CODE = (
    *(f"{function}(s)" for function in REDUCTIONS),
    *(f" {sign} " for sign in ("+", "-", ">", ">=", "<", "<=")),
    *(f" {low} x {high} " for low in ("<", "<=") for high in ("<", "<=")),
    *(f"x % 2 == {remainder}" for remainder in (0, 1)),
    " if ",
    " else ",
    " if s else ",
)
_HARD_CODE = (
    *(f" {sign} " for sign in ("+", "-", ">", ">=", "<", "<=")),
    *(f" {low} {name} {high} " for name in "xy" for low in ("<", "<=") for high in ("<", "<=")),
    *(f" % 2 == {remainder}" for remainder in (0, 1)),
    ":\n        return ",
    "\n    if ",
    "\n    return ",
    "\n    for x in xs:\n        if ",
    ":\n            t += ",
    "\n        if t",
    ":\n            break\n    return t",
    '")\n    if ',
    "len(s)",
)
_FRAME = (" if x is ", ", otherwise ", " of the items that are ", ", or ", " if none.")
_HARD_FRAME = (
    *(f" if {name} is " for name in ("x", "y", "n", "the length")),
    ", otherwise ",
    ": return ",
    ", add ",
    *ADDED.values(),
    " that is ",
    ", stop if the total is ",
)


def _phrase_words() -> tuple[str, ...]:
    """The fixed parts of every phrasing, such as `greater than ` or ` inclusive`."""
    phrasings = chain(*COMPARISONS.values(), *BETWEEN.values())
    parts = chain.from_iterable(phrasing.split("{}") for phrasing in phrasings)
    return tuple(part for part in parts if part)


def words(form: Form = FUNCTION) -> tuple[str, ...]:
    """The words of programs, questions and tests of a form, each once."""
    code, frame = (_HARD_CODE, _HARD_FRAME) if form is HARD else ((form.kept, *_CODE), _FRAME)
    own = *form.openings.values(), *code, *form.test_words, *form.requests.values(), *frame
    reductions = () if form is HARD else REDUCTIONS.values()
    return tuple(dict.fromkeys((*_NUMBERS, *own, *_phrase_words(), *PARITIES, *reductions)))
