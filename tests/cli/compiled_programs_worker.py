"""Run by test_compiled_programs.py in separate processes, which share a folder of compiled programs.

Arguments: the folder, and those of `codea1 train`; or the folder, a coordinator's address, the number of processes and
this one's index: then two small programs run, one on all devices and one on this process's own.
Prints one JSON line {"programs": how many were wanted, "found": how many of them were in the folder}.
"""

import json
import os
import sys
from collections import Counter

os.environ["JAX_COMPILATION_CACHE_DIR"] = sys.argv[1]
os.environ.pop("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", None)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from codea1_jax.cli import main
from codea1_jax.cli._compiled_programs import keep_compiled_programs
from codea1_jax.config import HostsConfig
from codea1_jax.runtime.join import joined


def run_two_programs(hosts: HostsConfig) -> int:
    """Returns an exit code, as `main` does."""
    with joined(hosts.coordinator, hosts.count, hosts.index):
        keep_compiled_programs()
        everywhere = NamedSharding(jax.make_mesh((jax.device_count(),), ("all",)), PartitionSpec("all"))
        ones = jax.make_array_from_callback((8,), everywhere, lambda index: np.ones(8)[index])
        total = float(jax.jit(jnp.sum)(ones))
        own = float(jax.jit(lambda x: x + jax.process_index())(np.ones(())))
        return int((total, own) != (8.0, 1.0 + jax.process_index()))


if __name__ == "__main__":
    events: Counter[str] = Counter()
    jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
    arguments = sys.argv[2:]
    if arguments[0] == "train":
        code = main(arguments)
    else:
        code = run_two_programs(HostsConfig(coordinator=arguments[0], count=int(arguments[1]), index=int(arguments[2])))
    counts = [events[f"/jax/compilation_cache/{event}"] for event in ("compile_requests_use_cache", "cache_hits")]
    print(json.dumps(dict(zip(("programs", "found"), counts, strict=True))))
    sys.exit(code)
