"""Reads the samples of SandboxFusion (https://github.com/bytedance/SandboxFusion): content, test, labels.

`test` is a JSON list of {input: {stdin}, output: {stdout}}, or packed {input_output: JSON of {inputs, outputs,
fn_name?}}, as LiveCodeBench's; these are problems to evaluate on, for what a row calls its solution may be a
placeholder. Or it is Python that checks a function: check(candidate), a unittest class, or asserts, which may also be a
list, `test_list`.
"""

import ast

from data_pipeline.livecodebench import of_method, unpacked
from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import document, identity, mapping, mappings, text, texts
from data_pipeline.source_code import function_under_test, parse
from data_pipeline.stream_rows import Sample, pairs, stream, tested
from sandbox.syntax import parsed


def _id(row: Row) -> str:
    labels = _labels(row)
    return identity({"id": labels.get("task_id") or labels.get("name") or row.get("id")}, "id")


def _labels(row: Row) -> Row:
    return mapping(document(row, "labels"), "labels")


def _problem(row: Row, name: str) -> Problem:
    question = text(row, "content")
    test = "\n".join(texts(row, "test_list")) or text(row, "test")
    if any(not isinstance(statement, ast.Expr) for statement in parsed(test) or ()):
        return _checked(row, name, question, test)
    if test.lstrip().startswith("["):
        samples = [_sample(each) for each in mappings(document(row, "test"), "test")]
        return tested(stream(name, question, "", samples, "sandbox_fusion"))
    tests = mapping(document(mapping(unpacked(test), "test"), "input_output"), "input_output")
    samples = pairs(tests.get("inputs"), tests.get("outputs"))
    if tests.get("fn_name"):
        return of_method(name, question, text(tests, "fn_name"), samples, "sandbox_fusion")
    return tested(stream(name, question, "", samples, "sandbox_fusion"))


def _checked(row: Row, name: str, question: str, check: str) -> Problem:
    labels, written = _labels(row), str(row.get("canonical_solution") or "").replace("\r\n", "\n")
    named = labels.get("entry_point") or function_under_test(parse(check, "the tests").body)
    if not isinstance(named, str):
        raise BadRow("neither labels.entry_point nor its tests tell which function is meant")
    solutions = [each for each in (question + written, written) if written and _defines(each, named)]
    return Problem(
        id=name,
        question=question,
        solution=solutions[0] if solutions else "",
        entry_point=named,
        check=f"{labels.get('test_setup_code') or ''}\n{check}",
        source="bigcodebench" if "unittest" in check else "sandbox_fusion",
    )


def _defines(code: str, name: str) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == name for each in parsed(code) or ())


def _sample(test: Row) -> Sample:
    return mapping(test.get("input"), "input").get("stdin"), mapping(test.get("output"), "output").get("stdout")


FORMAT = Format(
    "SandboxFusion",
    frozenset({"content", "labels"}),
    _id,
    _problem,
    difficulty_of=lambda row: str(_labels(row).get("difficulty")).lower(),
)
