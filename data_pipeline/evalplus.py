"""Reads HumanEval+ and MBPP+ (https://github.com/evalplus/evalplus) in three formats.

- evalplus/humanevalplus on the Hub: prompt, canonical_solution, entry_point, test with `check(candidate)`;
- evalplus/mbppplus on the Hub: prompt, code, test_list, test as a script that calls the function by its name;
- as in training sets for reinforcement learning: problem, GT_code, test with `check`, extra_info.

Each becomes a problem whose `check` defines `check(candidate)`, which raises if the candidate is wrong. One MBPP
function is itself called `check`: run the two in separate namespaces.
"""

import ast
from dataclasses import replace

from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import identifier, text, texts
from data_pipeline.source_code import entry_function, function_under_test, functions, parse, with_declaration


def _id(row: Row) -> str:
    task = row.get("task_id", _extra(row).get("question_id"))
    if task is None:
        raise BadRow("no task_id or extra_info.question_id")
    return f"MBPP/{task}" if str(task).isdigit() else str(task)


def _problem(row: Row, name: str) -> Problem:
    if "GT_code" in row:
        problem = _of_training_form(row, name)
    elif "canonical_solution" in row:
        problem = _of_humaneval(row, name)
    else:
        problem = _of_mbpp(row, name)
    problem = _with_true_entry_point(problem)
    entry_function(problem.solution, problem.entry_point)
    return problem


def _of_humaneval(row: Row, name: str) -> Problem:
    prompt = text(row, "prompt")
    if "base_input" in row:  # evalplus's own release: inputs without answers
        raise BadRow("a row of evalplus's release on GitHub; read evalplus/humanevalplus of the Hugging Face Hub")
    return Problem(
        id=name,
        question=prompt,
        solution=prompt + text(row, "canonical_solution"),
        entry_point=identifier(row, "entry_point"),
        check=text(row, "test"),
        source="humanevalplus",
    )


def _of_mbpp(row: Row, name: str) -> Problem:
    examples = texts(row, "test_list")
    solution = "\n".join((*texts(row, "test_imports"), text(row, "code")))
    entry_point = function_under_test(parse("\n".join(examples), "test_list").body)
    if entry_point is None:
        raise BadRow("test_list does not tell which function it is about")
    question = "\n".join((text(row, "prompt"), *examples[:1]))
    return Problem(
        id=name,
        question=with_declaration(question, entry_function(solution, entry_point)),
        solution=solution,
        entry_point=entry_point,
        check=_as_check(text(row, "test"), entry_point),
        source="mbppplus",
    )


def _of_training_form(row: Row, name: str) -> Problem:
    question, code, extra = text(row, "problem"), text(row, "GT_code"), _extra(row)
    # HumanEval's code is the body that completes the question; MBPP's is the whole function.
    solution = question + code if code.lstrip("\r\n")[:1].isspace() else f"{extra.get('imports') or ''}\n{code}"
    return Problem(
        id=name,
        question=question,
        solution=solution,
        entry_point=identifier(extra, "function_name"),
        check=text(row, "test"),
        source=text(row, "data_source"),
    )


def _extra(row: Row) -> Row:
    extra = row.get("extra_info")
    return extra if isinstance(extra, dict) else {}


def _as_check(script: str, entry_point: str) -> str:
    body = parse(script, "the test code").body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    rest = [node for node in body if node not in imports]
    if not rest:
        raise BadRow("the test code tests nothing")
    parameter = ast.arguments([], [ast.arg(entry_point)], None, [], [], None, [])
    check = ast.FunctionDef("check", parameter, rest, [])
    return ast.unparse(ast.fix_missing_locations(ast.Module([*imports, check], [])))


def _with_true_entry_point(problem: Problem) -> Problem:
    """The problem, with the function that its check calls as entry point where the row names a helper of it.

    Raises BadRow if the test code does not define a `check` with one parameter.
    """
    check = functions(problem.check, "the test code").get("check")
    if check is None or len(check.args.args) != 1:
        raise BadRow("the test code defines no check(candidate)")
    parameter = check.args.args[0].arg
    used = {node.id for node in ast.walk(check) if isinstance(node, ast.Name)}
    called = [name for name in functions(problem.solution) if name in used]
    if parameter in used or len(called) != 1:
        return problem
    renamed = problem.check.replace(f"def check({parameter})", f"def check({called[0]})")
    return replace(problem, entry_point=called[0], check=renamed)


FORMATS = (
    Format("HumanEval+", frozenset({"task_id", "prompt", "canonical_solution", "entry_point", "test"}), _id, _problem),
    Format("MBPP+", frozenset({"task_id", "prompt", "code", "test_list", "test"}), _id, _problem),
    Format("evalplus for training", frozenset({"problem", "GT_code", "test", "extra_info"}), _id, _problem),
)
