"""A program is compiled once for the same devices by the same compilers, whatever happens to what is kept."""

import jax
import jax.numpy as jnp
import pytest

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.plan import worker
from codea1_jax.plan.compiler import ProgramName, compile_programs
from codea1_jax.plan.worker import FOLDER, compile_cached, forget_lines
from codea1_jax.plan.workload import Phase

KERNEL = """
def doubled(x):
    def kernel(x_ref, y_ref):
        y_ref[...] = 2 * x_ref[...]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""
SOURCE, DEVICES = "module @jit_f", "v5e:2x2 [0, 1, 2, 3]"


pytestmark = pytest.mark.usefixtures("own_directory")


class Compiler:
    """Makes something else every time, and counts."""

    def __init__(self):
        self.times = 0

    def __call__(self):
        self.times += 1
        return {"arguments": self.times, "program": f"HloModule {self.times}"}


def test_only_the_same_program_for_the_same_devices_is_taken_from_before(monkeypatch):
    compiler = Compiler()

    def compiled(source=SOURCE, devices=DEVICES):
        return compile_cached(source, devices, compiler)["arguments"]

    assert [compiled(), compiled(), compiled(source="other"), compiled(devices="other")] == [1, 1, 2, 3]
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_anything=true")
    assert compiled() == 4
    monkeypatch.delenv("LIBTPU_INIT_ARGS")
    monkeypatch.setattr(worker, "compilers", lambda: "libtpu 9")
    assert compiled() == 5 == len(list(FOLDER.iterdir()))


@pytest.mark.parametrize("damage", [lambda whole: whole[:-9], lambda _: b"", lambda whole: whole[:20] + b"?" * 40])
def test_what_is_damaged_is_made_again(damage):
    compiler = Compiler()
    compile_cached(SOURCE, DEVICES, compiler)
    (file,) = FOLDER.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert [compile_cached(SOURCE, DEVICES, compiler)["arguments"] for _ in range(2)] == [2, 2]


def test_where_nothing_can_be_kept_it_is_made_every_time(tmp_path):
    (tmp_path / ".cache").write_text("no folder")
    compiler = Compiler()
    assert [compile_cached(SOURCE, DEVICES, compiler)["arguments"] for _ in range(2)] == [1, 2]


@pytest.mark.long
def test_a_second_plan_is_of_the_programs_that_the_first_has_compiled():
    """By libtpu, a smaller micro-batch too."""
    wanted = [ProgramName(Phase("clear", "code")), ProgramName(Phase("score-old", "code"), (2, 1024))]
    settings = ["mesh={fsdp: 2, tensor: 2}", "train.questions=4", "code.grpo.mini_batch_questions=2"]
    config, hardware = load(Config, "micro/golden", settings), find_hardware("v5e:2x2")
    first = compile_programs(config, hardware, wanted, lambda *_: None)
    written = {file: file.stat().st_mtime_ns for file in FOLDER.iterdir()}
    assert first.keys() == set(wanted) and len(written) == 2
    assert compile_programs(config, hardware, wanted, lambda *_: None) == first
    assert {file: file.stat().st_mtime_ns for file in FOLDER.iterdir()} == written


def test_a_program_is_kept_when_its_source_only_moves():
    """A kernel's own text says in which lines of which files it was written, unless these are forgotten."""

    def lowered(source: str, file: str) -> str:
        names = {}
        exec(compile(f"import jax\nimport jax.experimental.pallas as pl\n{source}", file, "exec"), names)
        traced = jax.jit(names["doubled"]).trace(jnp.zeros((8, 128)))
        return traced.lower(lowering_platforms=("tpu",)).as_text()

    before = jax.config.jax_traceback_in_locations_limit
    try:
        jax.config.update("jax_traceback_in_locations_limit", 10)
        assert lowered(KERNEL, "a.py") != lowered(f"\n\n{KERNEL}", "b.py")
        forget_lines()
        assert lowered(KERNEL, "a.py") == lowered(f"\n\n{KERNEL}", "b.py")
    finally:
        jax.config.update("jax_traceback_in_locations_limit", before)
