"""The micro world, against a reader of its English questions that shares no code with it; its streams, against that."""

import json
import re
from collections.abc import Callable
from types import CodeType

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from data_pipeline import Problem, micro
from sandbox import Task

CONDITIONS: list[tuple[str, Callable[..., bool]]] = [
    (r"(?:greater than|more than|above) (\S+)", lambda x, a: x > a),
    (r"(?:less than|smaller than|below) (\S+)", lambda x, a: x < a),
    (r"(?:at least|no less than) (\S+)|(\S+) or more", lambda x, a: x >= a),
    (r"(?:at most|no more than) (\S+)|(\S+) or less", lambda x, a: x <= a),
    (r"between (\S+) and (\S+) inclusive|from (\S+) to (\S+)", lambda x, a, b: x in range(a, b + 1)),
    (r"between (\S+) and (\S+) exclusive|strictly between (\S+) and (\S+)", lambda x, a, b: x in range(a + 1, b)),
    (r"even", lambda x: x & 1 == 0),
    (r"odd", lambda x: x & 1 == 1),
]
REDUCTIONS = {"sum": sum, "number": len, "largest": max, "smallest": min}


def understand(question: str) -> Callable:
    """What the question asks for, read only from its words."""
    pattern = r"Write f\(xs\): return the (\w+) of the items that are (.+), or (\S+) if none\."
    if match := re.fullmatch(pattern, question):
        reduction, condition, default = match.groups()

        def aggregate(xs):
            kept = [x for x in xs if holds(condition, {"x": x})]
            return REDUCTIONS[reduction](kept) if kept else int(default)

        return aggregate
    match = re.fullmatch(r"Write f\((x|x, y)\): return (.+) if x is (.+), otherwise (.+)\.", question)
    assert match, question
    parameters, then, condition, otherwise = match.groups()

    def branch(*arguments):
        names = dict(zip(parameters.split(", "), arguments, strict=True))
        return eval(then if holds(condition, names) else otherwise, names)

    return branch


def holds(phrase: str, names: dict[str, int]) -> bool:
    for pattern, test in CONDITIONS:
        if match := re.fullmatch(pattern, phrase):
            return test(names["x"], *(eval(group, dict(names)) for group in match.groups() if group))
    raise AssertionError(f"no reading of {phrase!r}")


def understand_hard(question: str) -> Callable:
    """What a question of the harder world asks for."""
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


def as_function(question: str) -> str:
    """The question of a stream as that of a function."""
    request, colon, asked = question.partition(": print ")
    assert colon, question
    parameters = {"number x": "x", "line of two numbers x and y": "x, y", "line of numbers xs": "xs"}
    return f"Write f({parameters[request.removeprefix('Read a ')]}): return {asked}"


def printed(program: str | CodeType, given: str) -> list[int] | str:
    """What a program prints that reads this text."""
    lines, output = iter(given.split("\n")), []
    try:
        exec(program, {"input": lambda: next(lines), "print": output.append})
    except ValueError:
        return "ValueError"
    return output


def compile_function(code: str) -> Callable:
    namespace: dict = {}
    exec(code, namespace)
    return namespace["f"]


def behaviour(function: Callable, calls: tuple[str, ...]) -> tuple:
    def value(call: str):
        try:
            return eval(call, {"f": function})
        except ValueError:
            return "ValueError"

    return tuple(value(call) for call in calls)


class World:
    """The questions and the warm start of one form, with a reader and the beginnings of its questions."""

    def __init__(self, form: micro.Form, understand: Callable[[str], Callable], *headers: str) -> None:
        self.understand, self.headers = understand, headers
        self.train = micro.problems("train", 250, 0, form)
        self.heldout = micro.problems("heldout", 250, 0, form)
        self.transcripts = micro.warm_start(1500, 0, form=form)


@pytest.fixture(scope="module")
def plain() -> World:
    return World(micro.FUNCTION, understand, "Write f(x):", "Write f(x, y):", "Write f(xs):")


@pytest.fixture(scope="module")
def hard() -> World:
    return World(micro.HARD, understand_hard, "Write f(x, y)", "Write f(xs)", "Write f(s)")


@pytest.fixture(scope="module", params=["plain", "hard"])
def world(request: pytest.FixtureRequest) -> World:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def train(plain: World) -> tuple[Problem, ...]:
    return plain.train


def test_solutions_do_what_their_questions_say_on_every_probe_and_mutants_differ_there(world):
    for problem in world.train + world.heldout:
        expected = behaviour(world.understand(problem.question), problem.probe_calls)
        assert behaviour(compile_function(problem.solution), problem.probe_calls) == expected, problem
        assert "ValueError" not in expected
        behaviours = {behaviour(compile_function(code), problem.probe_calls) for code in problem.mutants} | {expected}
        assert len(behaviours) == len(problem.mutants) + 1
        assert len(problem.mutants) <= 8


def test_golden_tests_are_four_different_true_assertions_and_those_of_the_warm_start_three(world):
    for number, texts in ((4, world.train), (3, world.transcripts)):
        for each in texts:
            lines = each.golden_tests if number == 4 else each.tests
            assert len(set(lines)) == number
            for line in lines:
                exec(line, {"f": world.understand(each.question)})


def test_a_forgotten_empty_case_raises_for_the_largest(train):
    problem = next(each for each in train if "max(s)" in each.solution)
    forgetful = next(code for code in problem.mutants if code.endswith("return max(s)"))
    assert "ValueError" in behaviour(compile_function(forgetful), problem.probe_calls)


def test_every_family_condition_and_reduction_occurs(train):
    text = "\n".join(problem.question for problem in train)
    for words in ("f(x)", "f(x, y)", "f(xs)", "even", "odd", "inclusive", "exclusive", "strictly", *REDUCTIONS):
        assert words in text


def test_splits_share_no_program_and_no_behaviour(train, plain):
    heldout = plain.heldout
    assert min(len(problem.mutants) for problem in train + heldout) >= 4

    def behaviours(problems):
        return {(p.probe_calls, behaviour(compile_function(p.solution), p.probe_calls)) for p in problems}

    assert not {p.solution for p in train} & {p.solution for p in heldout}
    assert not behaviours(train) & behaviours(heldout)


def test_problems_are_distinct_and_the_same_for_the_same_seed(train):
    assert len({problem.solution for problem in train}) == len({problem.id for problem in train}) == 250
    assert micro.problems("train", 250, seed=0) == train
    assert micro.problems("train", 100, seed=0) == train[:100]
    assert micro.problems("train", 100, seed=1) != train[:100]


def test_an_impossible_count_is_an_error():
    with pytest.raises(ValueError, match="0 to 10000 problems, not 10001"):
        micro.problems("heldout", 10_001, seed=0)


def test_a_part_of_the_warm_start_programs_fails_one_of_their_tests(plain, hard):
    """In the harder world two conditions are often wrong; on three tests most wrong programs show."""

    def failing(world: World) -> float:
        wrong = 0
        for transcript in world.transcripts:
            names: dict = {"f": compile_function(transcript.program)}
            calls, values = zip(*(line.removeprefix("assert ").split(" == ") for line in transcript.tests), strict=True)
            wrong += behaviour(names["f"], calls) != tuple(map(int, values))
        return wrong / len(world.transcripts)

    assert 0.08 < failing(plain) < failing(hard) < 0.6
    assert failing(hard) > 0.2


@pytest.mark.parametrize("world", ["plain", pytest.param("hard", marks=pytest.mark.long)], indirect=True)
def test_warm_start_and_held_out_problems_share_no_question(world):
    for header in world.headers:
        family = [problem for problem in world.heldout if problem.question.startswith(header)]
        calls = tuple({call for problem in family for call in problem.probe_calls})
        asked = {behaviour(world.understand(problem.question), calls) for problem in family}
        taught = {each.question for each in world.transcripts if each.question.startswith(header)}
        assert len(taught) > 400
        assert not asked & {behaviour(world.understand(question), calls) for question in taught}


BUGS = {  # the words of the questions that each is a bug of, and its default rate
    "inclusive_bug": ("at least|no less|or more|at most|no more|or less", 0.50),
    "strict_bug": ("greater|are more|is more|above|smaller|are less|is less|below", 0.10),
    "between_bug": ("between|from", 0.50),
    "empty_case_bug": ("if none", 0.50),
    "other_bug": (".", 0.12),
}
NO_BUGS = dict.fromkeys(BUGS, 0.0)


def share_wrong(rates: micro.WarmStart, words: str, calls: dict[str, tuple[str, ...]]) -> float:
    """The share of wrong programs among the transcripts whose question has one of these words."""
    concerned = [each for each in micro.warm_start(1200, 1, rates) if re.search(words, each.question)]
    wrong = 0
    for transcript in concerned:
        probes = calls[transcript.question.split(":")[0]]
        expected = behaviour(understand(transcript.question), probes)
        wrong += behaviour(compile_function(transcript.program), probes) != expected
    return wrong / len(concerned)


def test_each_warm_start_bug_has_its_default_rate(train):
    calls = {problem.question.split(":")[0]: problem.probe_calls for problem in train}
    assert share_wrong(micro.WarmStart(**NO_BUGS), ".", calls) == 0
    for name, (words, rate) in BUGS.items():
        assert getattr(micro.WarmStart(), name) == rate
        alone = micro.WarmStart(**(NO_BUGS | {name: rate}))
        assert share_wrong(alone, words, calls) == pytest.approx(rate, abs=0.05), name


def test_the_first_input_is_near_the_boundary_at_the_default_rate():
    """For `x at least 3` a random x lies in 2..4 with probability 3/19, so 0.4 + 0.6 * 3/19 are near."""
    near = total = 0
    for transcript in micro.warm_start(12_000, seed=3):
        if match := re.match(r"Write f\(x\): .*(?:at least|above|below) (-?\d+),", transcript.question):
            x = int(transcript.tests[0].split("(")[1].split(")")[0])
            near += abs(x - int(match[1])) <= 1
            total += 1
    assert total > 500
    assert near / total == pytest.approx(0.4 + 0.6 * 3 / 19, abs=0.06)


def test_streams_are_the_functions_of_the_same_seed(train):
    """Question for question: the same programs and mutants, which print what the functions return."""
    for function, stream in zip(train[:100], micro.problems("train", 100, 0, micro.STREAM), strict=True):
        assert (stream.task, stream.entry_point) == (Task.STREAM, "")
        assert as_function(stream.question) == function.question
        assert all(given.endswith("\n") and given == given.rstrip() + "\n" for given in stream.probe_calls)
        calls = [as_call(given, function.solution) for given in stream.probe_calls]
        assert calls == list(function.probe_calls)
        functions, programs = ((each.solution, *each.mutants) for each in (function, stream))
        for code, program in zip(functions, programs, strict=True):
            values = behaviour(compile_function(code), function.probe_calls)
            expected = [value if value == "ValueError" else [value] for value in values]
            compiled = compile(program, "program", "exec")
            assert [printed(compiled, given) for given in stream.probe_calls] == expected
        for line, pair in zip(function.golden_tests, stream.golden_tests, strict=True):
            given, stated = json.loads(pair)
            assert (as_call(given, function.solution), stated) == tuple(line.removeprefix("assert ").split(" == "))


def test_the_streams_warm_start_is_that_of_the_functions(plain):
    streams = micro.warm_start(1500, 0, form=micro.STREAM)
    for function, stream in zip(plain.transcripts, streams, strict=True):
        assert as_function(stream.question) == function.question
        for line, test in zip(function.tests, stream.tests, strict=True):
            match = re.fullmatch(r"```input\n(.*)\n```\n```output\n(.*)\n```", test)
            assert match and line == f"assert {as_call(match[1], function.program)} == {match[2]}"
            value = behaviour(compile_function(function.program), (as_call(match[1], function.program),))
            assert printed(stream.program, f"{match[1]}\n") == (value[0] if value == ("ValueError",) else list(value))


def as_call(given: str, function: str) -> str:
    """The call that puts the same numbers into a function."""
    numbers = ", ".join(given.split())
    return f"f([{numbers}])" if function.startswith("def f(xs)") else f"f({numbers})"


@pytest.mark.parametrize(
    ("form", "longest", "bytes_needed", "unneeded"),
    [
        (micro.FUNCTION, {"questions": 28, "codes": 34, "tests": 36}, "", range(20, 37)),
        (micro.STREAM, {"questions": 28, "codes": 34, "tests": 36}, "Ġ)", range(20, 37)),
        (micro.HARD, {"questions": 32, "codes": 35, "tests": 56}, None, (*range(-12, 0), *range(12, 37))),
    ],
)
def test_words_make_short_texts_without_loss(form, longest, bytes_needed, unneeded):
    train, heldout = (micro.problems(split, 250, 0, form) for split in ("train", "heldout"))
    transcripts, words = micro.warm_start(2500, 0, form=form), micro.words(form)
    solutions = {each.solution for each in train + heldout} | {each.program for each in transcripts}
    lengths, used = encoded_lengths(
        words,
        questions={each.question for each in (*train, *heldout, *transcripts)},
        codes=solutions | {m for p in train for m in p.mutants},
        tests={"\n".join(each.tests) for each in transcripts},
    )
    assert all(lengths[kind] <= most for kind, most in longest.items()), lengths
    assert bytes_needed is None or used - set(words) <= set("0123456789xy.Ċ" + bytes_needed)
    assert set(words) - used <= set(map(str, unneeded)), "words that no text needs"


def encoded_lengths(words: tuple[str, ...], **texts: set[str]) -> tuple[dict[str, int], set[str]]:
    """The longest text of each kind in tokens, by a tokenizer of bytes and these words; and the tokens used."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE({byte: index for index, byte in enumerate(sorted(alphabet))}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    assert len(set(words)) == len(words)
    used = set()

    def length(text: str) -> int:
        encoding = tokenizer.encode(text)
        assert tokenizer.decode(encoding.ids) == text
        used.update(encoding.tokens)
        return len(encoding)

    return {kind: max(map(length, each)) for kind, each in texts.items()}, used


# --- the harder world -----------------------------------------------------------------------------------


def test_half_of_the_questions_have_a_bug_that_a_tenth_of_the_probes_show(hard):
    """What the harder world is for: among the mutants are bugs that tests rarely find by chance."""
    with_hard, mutants = 0, 0
    for problem in hard.train:
        right = behaviour(compile_function(problem.solution), problem.probe_calls)
        shown = []
        for mutant in problem.mutants:
            wrong = behaviour(compile_function(mutant), problem.probe_calls)
            shown.append(sum(a != b for a, b in zip(right, wrong, strict=True)) / len(right))
        assert all(shown)
        with_hard += min(shown) <= 0.1
        mutants += len(shown)
    assert with_hard > len(hard.train) / 2
    assert mutants > 6 * len(hard.train)


def test_every_family_condition_and_bug_of_the_harder_world_occurs(hard):
    questions = "\n".join(problem.question for problem in hard.train)
    for words in ("f(x, y)", "f(xs)", "f(s)", "even", "odd", "exclusive", "inclusive", "the length is", "1 for each"):
        assert words in questions
    mutants = "\n".join(mutant for problem in hard.train for mutant in problem.mutants)
    assert re.search(r"if y .*:\n        return .*\n    if x ", mutants), "a bug in the order of conditions"
    assert re.search(r"t \+= (x|1)\n    return t", mutants), "a loop that does not stop"
