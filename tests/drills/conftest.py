"""The table that `make drills` ends with: what each drill recorded as its property `drill`."""

import pytest

COLUMNS = ("fault", "hosts", "message after", "over after", "resumed after", "steps lost", "message")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    rows = [row for report in reports for name, row in report.user_properties if name == "drill"]
    if not rows:
        return
    terminalreporter.section("drills")
    for row in [COLUMNS, *rows]:
        terminalreporter.line(" | ".join(map(str, row)))
