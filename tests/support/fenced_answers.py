"""Right answers of ours, each in another form in which models write them.

Every one defines `squares(xs)`, the sum of the squares of the even numbers in `xs`.
"""

import textwrap

PROGRAM = """\
def squares(xs):
    return sum(x * x for x in xs if x % 2 == 0)
"""
WRONG = """\
def squares(xs):
    return sum(x * x for x in xs)
"""
INDENTED = textwrap.indent(PROGRAM, "   ")
QUOTED = textwrap.indent(PROGRAM, "> ")
DOCUMENTED = '''\
def squares(xs):
    """Sums the squares of even numbers.

    Example:
    ```
    squares([1, 2])  # 4
    ```
    """
    return sum(x * x for x in xs if x % 2 == 0)
'''
DOCUMENTED_AT_TWO = DOCUMENTED.replace("    ", "  ")

ANSWERS = {
    "a python block": f"```python\n{PROGRAM}```",
    "four ticks": f"````python\n{PROGRAM}````",
    "four ticks around three": f"````markdown\nHere it is:\n\n```python\n{PROGRAM}```\n````",
    "four ticks without a language around three": f"````\n```python\n{PROGRAM}```\n````",
    "four ticks around a docstring with three": f"````python\n{DOCUMENTED_AT_TWO}````",
    "tildes": f"~~~\n{PROGRAM}~~~",
    "tildes with a language": f"~~~python\n{PROGRAM}~~~\nDone.",
    "tildes around ticks": f"~~~~\nThe answer:\n```python\n{PROGRAM}```\n~~~~",
    "py": f"```py\n{PROGRAM}```",
    "Python": f"```Python\n{PROGRAM}```",
    "python3": f"```python3\n{PROGRAM}```",
    "Python 3.11": f"```Python 3.11\n{PROGRAM}```",
    "attributes": f"```{{.python .numberLines}}\n{PROGRAM}```",
    "a space before the language": f"``` python\n{PROGRAM}```",
    "a title behind the language": f'```python title="squares.py"\n{PROGRAM}```',
    "no language": f"Here:\n```\n{PROGRAM}```",
    "in a numbered list": f"1. Write it:\n\n   ```python\n{INDENTED}   ```\n\n2. Test it.",
    "in nested lists": f"- A\n  - B\n\n    ```python\n{textwrap.indent(PROGRAM, '    ')}    ```\n",
    "in a list, less indented than its fence": f"1. So:\n   ```python\n{PROGRAM}   ```",
    "indented by six without a list": "Text.\n\n" + textwrap.indent(f"```python\n{PROGRAM}```", " " * 6),
    "fences in a docstring": f"```python\n{DOCUMENTED}```",
    "fences in a docstring, indented by two": f"```python\n{DOCUMENTED_AT_TWO}```",
    "quoted": f"As you asked:\n\n> ```python\n{QUOTED}> ```\n",
    "imports, then the function": (
        "```python\nfrom operator import mul\n```\nand\n```python\ndef squares(xs):\n"
        "    return sum(mul(x, x) for x in xs if x % 2 == 0)\n```"
    ),
    "a helper, then the function": (
        "```python\ndef even(x):\n    return x % 2 == 0\n```\nThen:\n```python\ndef squares(xs):\n"
        "    return sum(x * x for x in xs if even(x))\n```"
    ),
    "the function, then its helpers": (
        "```python\ndef squares(xs):\n    return sum(x * x for x in xs if even(x))\n```\nwith\n```python\n"
        "def even(x):\n    return odd(x + 1)\n```\nand\n```python\ndef odd(x):\n    return x % 2 == 1\n```"
    ),
    "usage first": f"It is called as\n```python\nprint(squares([1, 2]))\n```\nHere it is:\n```python\n{PROGRAM}```",
    "usage last": f"```python\n{PROGRAM}```\nExample:\n```python\ny = squares([1, 2])\nprint(y)\n```\n```\n4\n```",
    "wrong, then corrected": f"```python\n{WRONG}```\nWait, odd numbers do not count.\n```python\n{PROGRAM}```",
    "wrong in a block of its own kind": f"```python\n{WRONG}```\nCorrected:\n~~~\n{PROGRAM}~~~",
    "the signature quoted last": f"```python\n{PROGRAM}```\nIts signature:\n```python\ndef squares(xs): ...\n```",
    "another language first": f"```bash\npip install nothing\n```\n```python\n{PROGRAM}```",
    "a session last": f"```python\n{PROGRAM}```\n```pycon\n>>> squares([2])\n4\n```",
    "a draft in thinking": f"<think>\nMaybe\n```python\n{WRONG}```\nNo.\n</think>\n\n```python\n{PROGRAM}```",
    "thinking that quotes an open block": f"<think>\n```python\ndef squares(\n</think>\n```python\n{PROGRAM}```",
    "thinking that the prompt began": f"Maybe\n```python\n{PROGRAM}```\nor\n```python\n{WRONG}\n</think>\n{PROGRAM}",
    "the end of the turn in an open block": f"```python\n{PROGRAM}<|im_end|>",
    "the end of the turn behind a fence": f"```python\n{PROGRAM}```<|im_end|>\n<|im_start|>user\nThanks",
    "the end of the turn without a block": f"{PROGRAM.rstrip()}<|endoftext|>",
    "a fence in the middle of a line": f"Solution: ```python\n{PROGRAM}```",
    "text behind the closing fence": f"```python\n{PROGRAM}``` which is right.",
    "an open block, then a closed one": f"```python\n{WRONG}\nThat is wrong:\n```python\n{PROGRAM}```",
    "windows line ends": f"```python\n{PROGRAM}```".replace("\n", "\r\n"),
    "HTML around": f"<details>\n<summary>Code</summary>\n```python\n{PROGRAM}```\n</details>",
    "code, then its output in a block": f"{PROGRAM}\n```\n4\n```",
    "no block": PROGRAM,
}
