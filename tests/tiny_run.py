"""A whole training run small enough for a test: seconds a process, yet its programs run and its book fills.

The finished warm start and the compiled programs are kept under `.cache`, so only the first test pays for them.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Lengths are chosen so that every batch has one shape: compiling is most of the time.
SETTINGS = (
    "model.architecture={hidden_size: 32, intermediate_size: 64, num_layers: 1, num_heads: 2, head_dim: 16}",
    "model.architecture.num_kv_heads=1",
    "warm_start.steps=300",
    "warm_start.batch=16",
    "warm_start.optimizer.learning_rate=0.01",
    "warm_start.packing={row_length: 256, micro_batch_tokens: 2048}",
    f"warm_start_cache={ROOT / '.cache' / 'warm_start'}",
    "code.packing={row_length: 1024, micro_batch_tokens: 1024, logit_chunk: 128}",
    "test.packing={row_length: 1024, micro_batch_tokens: 1024, logit_chunk: 128}",
    "code.grpo.mini_batch_questions=1",
    "test.grpo.mini_batch_questions=1",
    "rollout.samples=2",
    "rollout.suites=2",
    "rollout.groups=2",
    "rollout.code_tokens=32",
    "rollout.test_tokens=32",
    "rollout.temperature=0.5",
    "train.questions=2",
    "train.steps=4",
    "data.problems=6",
    "data.heldout_problems=2",
    "eval.every=2",
    "eval.samples=2",
    "checkpoint.every=2",
    "sandbox.workers=1",
)

_ENVIRONMENT = {
    **os.environ,
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
}


def start_codea1(*arguments: str) -> subprocess.Popen[str]:
    """Starts the command line in a process of its own."""
    command = [sys.executable, "-c", "import sys; from codea1_jax.cli import main; sys.exit(main())", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=_ENVIRONMENT, stdout=pipe, stderr=pipe, text=True)


def train_arguments(directory: Path, *more: str) -> tuple[str, ...]:
    """A tiny run of the paper's own method."""
    return ("train", "micro/a1_paper", *SETTINGS, f"run.directory={directory}", *more)
