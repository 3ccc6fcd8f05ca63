import argparse
import json
import sys
from dataclasses import asdict

from codea1_jax.cli._runtime import DONE, FAILED, keep_compiled_programs
from codea1_jax.config import Config, HostsConfig, load
from codea1_jax.doctor.selftest import Row, checks_for, default_preset, perform
from codea1_jax.runtime.devices import start_devices
from codea1_jax.runtime.join import joined


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", nargs="?", help="by default the first that is planned for the devices at hand")
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="for example rollout.rows=64")
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    hosts = HostsConfig() if options.preset is None else load(Config, options.preset, options.overrides).hosts
    with joined(hosts.coordinator, hosts.count, hosts.index):
        start_devices()
        keep_compiled_programs()
        preset = options.preset or default_preset()
        checks = checks_for(load(Config, preset, options.overrides))
        print(f"{preset}: {len(checks)} checks", file=sys.stderr)
        rows = []
        for row in perform(checks):
            print(_line(row), file=sys.stderr if options.json else sys.stdout, flush=True)
            rows.append(row)
    failed = [row.name for row in rows if not row.passed]
    if options.json:
        passed = [row.name for row in rows if row.passed]
        print(json.dumps({"preset": preset, "passed": passed, "failed": failed, "rows": list(map(asdict, rows))}))
    else:
        print(f"\nfailed: {', '.join(failed)}" if failed else "\nall passed")
    return FAILED if failed else DONE


def _line(row: Row) -> str:
    sign = "ok  " if row.passed else "FAIL"
    return f"{sign} {row.name:58} {row.measured:28} expected: {row.expected} ({row.seconds:.1f} s)"
