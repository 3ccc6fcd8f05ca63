"""What our kernels and gradients are compiled to for every architecture of GPU: no register is spilled, and nothing is
added in the order in which it happens to come.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import jax_plugins.xla_cuda12
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from paged_programs import PAGE

from codea1_jax.common.chips import CHIPS, find_hardware
from codea1_jax.config import Config, MeshConfig, load
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.cuda import CARDS, absent_gpus
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs
from codea1_jax.rollout import paged_gpu
from codea1_jax.runtime.layout import using

PTXAS = Path(jax_plugins.xla_cuda12.__path__[0]).parents[1] / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
SPILLED = 64  # bytes that a kernel may spill
# Known to be slow: sm_120 needs more registers for the gradient of keys and values, of 32 queries at once. With 16 at
# once nothing is spilled on any card; which is faster only a card can show.
SPILLED_BY_GRADIENTS = {"sm_120": 1616}
ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.]*\.(?:f16|f32|f64|bf16)\w*|\batom\.[\w.]*cas\.\w+")
OWN = re.compile(r"\.entry (paged_attention|flash_\w+)\(")
# Of each architecture, the card that plans know last.
CARD_OF = {"sm_{}{}".format(*CHIPS[kind].capability): f"{kind}:1" for kind in CARDS}
QUICK = "sm_86"  # has least shared memory, as sm_89 and sm_120 have; the others take minutes
ON_EACH = pytest.mark.parametrize(
    "architecture", [pytest.param(each, marks=[] if each == QUICK else pytest.mark.long) for each in CARD_OF]
)


def mesh_of(architecture):
    return make_mesh(MeshConfig(), absent_gpus(find_hardware(CARD_OF[architecture])))


def ptx_of(lowered, folder):
    """Every kernel's."""
    lowered.compile(compiler_options={"xla_dump_to": str(folder)})
    texts = [path.read_text() for path in folder.glob("*.ptx")]
    assert texts
    return texts


def spills(ptx):
    """Bytes that each of our own kernels spills."""

    def spilled(text):
        target = re.search(r"^\.target (\w+)", text, re.MULTILINE)[1]
        command = (PTXAS, "--verbose", f"--gpu-name={target}", "--output-file=/dev/null", "-")
        said = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stderr
        return int(re.search(r"(\d+) bytes spill stores", said)[1])

    own = {match[1]: text for text in ptx if (match := OWN.search(text))}
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(own, pool.map(spilled, own.values()), strict=True))


def check(lowered, folder, kernels, spilled=SPILLED):
    """Compiled, it has just these of our kernels, none of which spills more, and adds nothing by atomic operations."""
    ptx = ptx_of(lowered, folder)
    found = spills(ptx)
    assert set(found) == kernels
    assert max(found.values(), default=0) <= spilled, found
    assert [match[0] for text in ptx for match in ATOMIC.finditer(text)] == []


def shape(mesh, dtype, *sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.dtype(dtype), sharding=NamedSharding(mesh, PartitionSpec()))


def check_decoding(architecture, folder, group, head_dim, samples, dtype="bfloat16"):
    mesh = mesh_of(architecture)
    of = partial(shape, mesh)
    store = of(dtype, 4001, 2, PAGE, paged_gpu.width(head_dim))

    def attend(q, store, tables, lengths):
        with using(mesh):
            return paged_gpu.paged_attention(q, store, store, paged_gpu.work_of(tables, lengths, PAGE))

    q = of(dtype, 8, 2, group * samples, head_dim)
    lowered = jax.jit(attend).lower(q, store, of("int32", 8, 256), of("int32", 8))
    check(lowered, folder, {"paged_attention"})


@ON_EACH
@pytest.mark.parametrize(("group", "head_dim"), [(6, 128), (7, 128), (2, 24)], ids=["1.5b", "7b", "micro"])
@pytest.mark.parametrize("samples", [1, 32, 200])
def test_decoding_any_number_of_samples_spills_nothing(architecture, group, head_dim, samples, tmp_path):
    check_decoding(architecture, tmp_path, group, head_dim, samples)


@ON_EACH
@pytest.mark.parametrize(("head_dim", "dtype"), [(128, "float32"), (256, "bfloat16")])
def test_decoding_heads_of_512_bytes_fits_into_shared_memory(architecture, head_dim, dtype, tmp_path):
    check_decoding(architecture, tmp_path, group=6, head_dim=head_dim, samples=32, dtype=dtype)


FEW_LAYERS = 2


def programs(architecture, preset, *settings):
    config = load(Config, preset, settings)
    run = make_planned_run(config, find_hardware("h100:1"))
    shallow = {name: replace(shape, num_layers=FEW_LAYERS) for name, shape in run.shapes.items()}
    run = replace(run, shapes=shallow)
    return {str(program.name): program for program in make_programs(run, mesh_of(architecture))}


@ON_EACH
@pytest.mark.parametrize("preset", ["1.5b/a1_h100x1", pytest.param("7b/a1_h100", marks=pytest.mark.long)])
def test_a_gradient_adds_nothing_in_the_order_in_which_it_comes(architecture, preset, tmp_path):
    program = programs(architecture, preset, "mesh={fsdp: 1}")["gradient test"]
    kernels = {"flash_forward", "flash_backward_q", "flash_backward_kv"}
    check(program.lower(), tmp_path, kernels, SPILLED_BY_GRADIENTS.get(architecture, SPILLED))


def test_the_gradient_that_jax_gives_a_gather_does(tmp_path):
    mesh = mesh_of("sm_80")

    def gradient(table, tokens, rows):
        with using(mesh):
            return jax.vjp(lambda table: table[tokens], table)[1](rows)[0]

    arguments = [
        shape(mesh, dtype, *sizes) for dtype, *sizes in (("bfloat16", 5000, 64), ("int32", 999), ("bfloat16", 999, 64))
    ]
    assert any(map(ATOMIC.search, ptx_of(jax.jit(gradient).lower(*arguments), tmp_path)))


@ON_EACH
def test_the_demo_is_sampled_and_learned(architecture, tmp_path):
    found = programs(architecture, "micro/a1")
    check(found["decode code"].lower(), tmp_path / "decode", {"paged_attention"})
    check(found["gradient code"].lower(), tmp_path / "gradient", set())  # in float32 by XLA's own
