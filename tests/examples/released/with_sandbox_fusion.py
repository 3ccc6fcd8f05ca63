"""SandboxFusion's own client against our service: run_code, its summary, submit, and many at once."""

import os

import sandbox_fusion as sf

sf.set_endpoint(os.environ["SERVICE"])


def ran(code: str, **fields) -> sf.RunCodeResponse:
    return sf.run_code(sf.RunCodeRequest(code=code, language="python", **fields))


answer = ran("print(input())", stdin="hello")
assert (answer.status, answer.run_result.stdout) == (sf.RunStatus.Success, "hello\n"), answer
mapping = sf.SummaryMapping(Success="ok", Failed="bad", RunFailed="raised", RunTimeout="late")
summaries = [
    sf.summary_run_code_result(ran(code, run_timeout=1), mapping) for code in ("", "1 / 0", "while True: pass")
]
assert summaries == ["ok", "raised", "late"], summaries
answers = sf.run_concurrent(lambda i: ran(f"print({i} ** 2)").run_result.stdout, args=[[i] for i in range(50)])
assert answers == [f"{i**2}\n" for i in range(50)], answers


def accepted(completion: str, row: dict) -> bool:
    config = sf.TestConfig(language="python", provided_data=row, run_timeout=20)
    request = sf.SubmitRequest(dataset="any", id=row.get("id", 0), completion=completion, config=config)
    return sf.submit(request).accepted


row = {"id": 1, "content": "Double it.", "labels": {}, "test": [{"input": {"stdin": "2"}, "output": {"stdout": "4"}}]}
assert accepted("```python\nprint(int(input()) * 2)\n```", row)
assert not accepted("```python\nprint(5)\n```", row)
asserts = {"id": 2, "content": "Write f.", "labels": {}, "test": "assert f(2) == 4"}
assert accepted("```python\ndef f(x): return x * 2\n```", asserts)
assert not accepted("```python\nimport os\nos._exit(0)\n```", asserts)
print("judged")
