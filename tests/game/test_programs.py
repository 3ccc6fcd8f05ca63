"""Which program is read from a response: judged by what it computes."""

import random
from functools import partial
from pathlib import Path

import pytest
import yaml
from work import calls_of

from codea1_jax.game.suites import extract_suite
from data_pipeline.responses import CodeBlock, code_blocks, paper_program, program_in

ANSWERS, COMMONMARK = (
    yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text()) for name in ("fenced_answers", "commonmark")
)


def is_right(program):
    names = {}
    exec(program, names)
    return [names["squares"](xs) for xs in ([], [1, 2, 3, 4], [-2, 7])] == [0, 20, 4]


@pytest.mark.parametrize("form", ANSWERS)
def test_a_right_answer_is_right_in_whatever_form_it_is_written(form):
    assert is_right(program_in(ANSWERS[form], "squares"))
    assert is_right(program_in(ANSWERS[form]))  # whatever function was asked for


def test_the_papers_reading_takes_the_first_python_block_else_everything():
    assert paper_program("a\n```python\nx = 1\n```\n```python\nx = 2\n```") == "\nx = 1\n"
    for response in ("```py\nx = 1\n```", "```python\nx = 1", "x = 1", "<think>```</think>"):
        assert paper_program(response) == response


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\ncut = 1", "cut = 1"),
        ("```python\ndef f(x):\n    y =", "def f(x):\n    y ="),
        ("```js\nlet x\n```\n```\nother\n```", "other\n"),
        ("```js\nlet x\n```\n", "let x\n"),
        ("```python\nx = 1\n```\n```python\nx = 2\n```\n```\n3\n```", "x = 2\n"),
        ("```python\n\n```", ""),
        ("I cannot.", "I cannot."),
        ("<think>```python\ndef f(x): return x\n```", ""),
        ("", ""),
    ],
)
def test_where_nothing_defines_the_function_the_last_block_is_the_program(response, program):
    assert program_in(response, "f") == program


@pytest.mark.parametrize(
    "program",
    [
        "f = lambda x: x\n",
        "from math import floor as f\n",
        "class f:\n    pass\n",
        "if True:\n    def f(x):\n        return x\nelse:\n    f = None\n",
        "f: object = abs\n",
        "def f(x):\n    return '<|im_end|>' in x\n",
        "async def f(x):\n    return x\n",
    ],
)
def test_whatever_binds_the_name_defines_it(program):
    assert program_in(f"```python\nf(1)\n```\n```python\n{program}```\n```python\nf(2)\n```", "f") == program


def test_a_name_that_is_bound_to_its_own_call_is_no_definition():
    assert program_in("```python\ndef f(x):\n    return x\n```\n```python\nf = f(1)\n```", "f").startswith("def f")


@pytest.mark.parametrize(("text", "blocks"), COMMONMARK)
def test_blocks_are_commonmarks(text, blocks):
    # Blocks in broken blocks are ours.
    assert code_blocks(text, 1) == [CodeBlock(info, content) for info, content in blocks]


HOSTILE = {
    "quotations in quotations": lambda n: ">" * n + " ```\n" + "> " * n,
    "a longer quotation every line": lambda n: "\n".join(">" * i + " ```" for i in range(int(n**0.5))),
    "lists in lists": lambda n: "- " * n + "```\nx",
    "a deeper list every line": lambda n: "\n".join("  " * i + "- ```python" for i in range(int(n**0.5))),
    "many lists": lambda n: "- ```\n" * (n // 5),
    "many fences": lambda n: "```python\n" * (n // 10),
    "many kinds of fences": lambda n: "\n".join("`" * i + "\n" + "~" * i for i in range(3, int(n**0.5))),
    "fences that open others": lambda n: "\n".join("`" * i + "md" for i in reversed(range(3, int(n**0.5)))),
    "many blocks": lambda n: "```python\ndef g(x):\n    return x\n```\n" * (n // 20),
    "blocks that need each other": lambda n: "".join(
        f"```python\ndef {'f' if i == 0 else f'g{i}'}():\n    return g{i + 1}()\n```\n" for i in range(n // 20)
    ),
    "ticks": lambda n: "`" * n,
    "a fence that never ends": lambda n: "```python\n" + "x = (\n" * (n // 6),
    "broken blocks": lambda n: "```python\nx = (\n```\n" * (n // 20),
    "thinking in thinking": lambda n: "<think>\n" * (n // 8),
    "ends of turns": lambda n: "<|im_end|> x\n" * (n // 13),
    "spaces": lambda n: "```" + " " * n + "\n" + " " * n,
    "references": lambda n: "[a]: b\n" * (n // 7) + "```\n",
    "tags": lambda n: "<div>\n" * (n // 6) + "```\n",
}


@pytest.mark.parametrize("read", [program_in, extract_suite])
@pytest.mark.parametrize("kind", HOSTILE)
def test_reading_takes_time_in_proportion_to_the_length(kind, read):
    read("```python\nf(1)\n```", "f")  # whatever is done once
    short, long = (calls_of(partial(read, HOSTILE[kind](n), "f")) for n in (1_000, 4_000))
    assert long < 6 * short + 20_000


def test_any_text_is_read_without_an_error():
    rng = random.Random(0)
    pieces = ["```", "~~~", "````", "python", "\n", "\n", " ", "    ", "> ", "- ", "1. ", "def f(x):", "return x", "("]
    pieces += ["<think>", "</think>", "<|im_end|>", "\t", "\r", "\0", "\f", "#", "[a]: b", "'''", "assert f(1) == 1"]
    for _ in range(300):
        response = "".join(rng.choices(pieces, k=rng.randint(1, 40)))
        assert isinstance(program_in(response, "f"), str) and isinstance(program_in(response), str)
        assert isinstance(paper_program(response), str)
        for reading in ("commonmark", "paper"):
            extract_suite(response, "f", reading)
