"""Reads the samples of SandboxFusion (https://github.com/bytedance/SandboxFusion): content, test, labels.

Problems to evaluate on: what a row calls its solution may be a placeholder. `test` is a JSON list of {input: {stdin},
output: {stdout}}, or packed {input_output: JSON of {inputs, outputs}}.
"""

from data_pipeline.livecodebench import unpacked
from data_pipeline.problem import Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import document, identity, mapping, mappings, text
from data_pipeline.stream_rows import Sample, of_inputs_and_outputs, stream, tested


def _id(row: Row) -> str:
    labels = _labels(row)
    return identity({"id": labels.get("task_id") or labels.get("name") or row.get("id")}, "id")


def _labels(row: Row) -> Row:
    return mapping(document(row, "labels"), "labels")


def _problem(row: Row) -> Problem:
    question, test = text(row, "content"), text(row, "test")
    if test.lstrip().startswith("["):
        samples = [_sample(each) for each in mappings(document(row, "test"), "test")]
        return tested(stream(_id(row), question, "", samples, "sandbox_fusion"))
    tests = mapping(document(mapping(unpacked(test), "test"), "input_output"), "input_output")
    return tested(of_inputs_and_outputs(_id(row), question, "", tests, "sandbox_fusion"))


def _sample(test: Row) -> Sample:
    return mapping(test.get("input"), "input").get("stdin"), mapping(test.get("output"), "output").get("stdout")


FORMAT = Format(
    "SandboxFusion",
    frozenset({"content", "test", "labels"}),
    _id,
    _problem,
    difficulty_of=lambda row: str(_labels(row).get("difficulty")).lower(),
)
