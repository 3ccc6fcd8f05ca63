"""From a model's response to the program in it."""

import re

_BLOCK = re.compile(r"^```(?:python|py)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE | re.IGNORECASE)


def program_in(response: str) -> str:
    """The last fenced block of Python, or all of it where there is none."""
    return (_BLOCK.findall(response) or [response])[-1]
