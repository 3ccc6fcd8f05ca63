"""What pydantic refuses, in the words of this project's own messages."""

import reprlib
from collections.abc import Mapping
from typing import Any

_SECTION = "a section of keys, as in {{key: value}}"
_LIST = "a list, as in [a, b]"
# What a value must be, by pydantic's type of error; in braces, the limits that it states.
_MUST_BE = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), _LIST),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _SECTION),
    "string_type": "text",
    "literal_error": "{expected}",
    "finite_number": "a finite number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
}


def describe(error: Mapping[str, Any]) -> str:
    """One of `ValidationError.errors()` without its place: a validator's own message, or what was wanted and found."""
    if error["type"] == "missing":
        return "is missing"
    wanted = _MUST_BE.get(error["type"])
    if wanted is not None:
        return f"must be {wanted.format(**error.get('ctx', {}))}, not {reprlib.repr(error['input'])}"
    message = " ".join(error["msg"].removeprefix("Value error, ").split())
    # Validators' own messages show what they refuse.
    return message if error["type"] == "value_error" else f"{message}, not {reprlib.repr(error['input'])}"
