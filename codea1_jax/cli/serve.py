from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codea1_jax.cli._arguments import positive
from codea1_jax.cli._runtime import DONE, keep_compiled_programs
from codea1_jax.common.errors import UserError
from codea1_judge.cli import port

if TYPE_CHECKING:
    from codea1_jax.models.architecture import Architecture
    from codea1_jax.models.decoder import Params
    from codea1_jax.models.policy import Policy
    from codea1_jax.rollout import Capacity
    from codea1_jax.serve.server import Address

VARIABLE = "CODEA1_SERVE_TOKEN"
BLOCK = 16  # tokens that a client gets at a time, and of a page of the cache


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a run, a model directory or a Hub id")
    parser.add_argument("--role", help="which of a run's policies: code or test")
    parser.add_argument("--name", help="what clients call the model; default: the last part of CHECKPOINT")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    parser.add_argument("--port", type=port, default=8000, help="HTTP port; default: %(default)s")
    parser.add_argument("--grpc-port", type=port, default=9000, help="gRPC port; default: %(default)s")
    parser.add_argument("--token-file", type=Path, help=f"the bearer token clients must send; default: ${VARIABLE}")
    parser.add_argument("--slots", type=positive, default=16, help="prompts decoded at once; default: %(default)s")
    parser.add_argument(
        "--samples-per-slot", type=positive, default=1, help="samples that share a prompt's slot; default: %(default)s"
    )
    parser.add_argument("--prompt-tokens", type=positive, default=4096, help="longest prompt; default: %(default)s")
    parser.add_argument("--response-tokens", type=positive, default=4096, help="longest response; default: %(default)s")
    parser.add_argument(
        "--cache-tokens",
        type=positive,
        help="tokens of prompts and responses kept at once; where they run out, the youngest sample waits and is drawn "
        "again; default: half of what all slots could need",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from sandbox.remote.bearer import read_token

    token = read_token(options.token_file, VARIABLE)
    try:
        from codea1_jax.serve.server import Address, Server, run_until_signalled
    except ModuleNotFoundError as error:
        raise UserError(f"serving needs {error.name}: pip install 'codea1-jax[serve,jetstream]'") from error
    from codea1_jax.cli._output import log_to_stderr
    from codea1_jax.runtime.devices import start_devices

    log_to_stderr()
    start_devices()
    keep_compiled_programs()
    address = Address(options.host, options.port, options.grpc_port, token)
    address.check_free()  # before the weights are loaded
    name = options.name or Path(options.checkpoint).absolute().name

    def on_ready(served: Address) -> None:
        print(
            f"codea1: serving {name} at http://{options.host}:{served.http_port}/v1, gRPC at port {served.grpc_port}",
            file=sys.stderr,
            flush=True,
        )

    policy, params = _load(options.checkpoint, options.role)
    capacity = _capacity(options, policy.model.architecture)
    run_until_signalled(Server(name, policy, params, capacity, address), on_ready)
    return DONE


def _load(place: str, role: str | None) -> tuple[Policy, Params]:
    import jax.numpy as jnp

    from codea1_jax.models.sharding import one_device_mesh
    from codea1_jax.training.convert import open_policy

    source = open_policy(place, role)
    dtype = jnp.dtype(source.fast_dtype)
    model = source.policy.model.clone(dtype=dtype, param_dtype=dtype)
    params = source.decode_params(model, one_device_mesh())
    return replace(source.policy, model=model), params


def _capacity(options: argparse.Namespace, model: Architecture) -> Capacity:
    from codea1_jax.config import RolloutConfig
    from codea1_jax.rollout.capacity import buckets, capacity_of

    prompt, response, slots, width = (
        options.prompt_tokens,
        options.response_tokens,
        options.slots,
        options.samples_per_slot,
    )
    if prompt + response > model.max_position_embeddings:
        raise UserError(
            f"--prompt-tokens + --response-tokens = {prompt + response} is more than the model's context of "
            f"{model.max_position_embeddings}"
        )
    tokens = options.cache_tokens or slots * (prompt + width * response) // 2
    rollout = RolloutConfig(rows=slots * width, block=BLOCK, prefill_tokens=prompt, cache_tokens=tokens)
    capacity = capacity_of(rollout, 1, slots, width, prompt, response)
    return replace(capacity, prefill_buckets=buckets(prompt, multiple=BLOCK))  # prompts that come alone
