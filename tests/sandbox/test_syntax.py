"""A parse that another thread's spoils is tried again; what really fails still does."""

import ast

import pytest

from sandbox.syntax import parse_expression, parse_module


def spoiled(times: int):
    """`ast.parse`, which another thread disturbs the first times, as CPython 3.11.7 lets it."""
    parse, left = ast.parse, [times]

    def parse_or_fail(*arguments, **options):
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch (before=162, after=-566)")
        return parse(*arguments, **options)

    return parse_or_fail


def test_a_parse_that_met_another_threads_is_tried_again(monkeypatch):
    monkeypatch.setattr(ast, "parse", spoiled(2))
    assert isinstance(parse_expression("f(1)"), ast.Call)


def test_what_fails_every_time_is_raised(monkeypatch):
    monkeypatch.setattr(ast, "parse", spoiled(100))
    with pytest.raises(SystemError):
        parse_module("x = 1")


def test_a_source_that_is_not_python_is_parsed_once():
    with pytest.raises(SyntaxError):
        parse_module("def")


def test_what_python_warns_of_in_a_models_program_reaches_no_terminal(recwarn):
    tree = parse_module("def f(x):\n    return x is 1or '\\d'")
    assert isinstance(tree.body[0], ast.FunctionDef)
    assert recwarn.list == []
