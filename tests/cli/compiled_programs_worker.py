"""Run by test_compiled_programs.py in separate processes, which share a folder of compiled programs: two small ones are
run, one on all devices and one on this process's own, and both again, as at the next start.

Arguments: the folder, a coordinator's address, the number of processes and this one's index. Prints a line of JSON,
{"first": counts, "second": counts}: of {"programs": how many were wanted, "found": how many were in the folder}.
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

from codea1_jax.cli._runtime import keep_compiled_programs
from codea1_jax.config import HostsConfig
from codea1_jax.runtime.join import joined

events: Counter[str] = Counter()


def counts() -> dict[str, int]:
    """Those since they were last asked for."""
    requests, hits = (events[f"/jax/compilation_cache/{name}"] for name in ("compile_requests_use_cache", "cache_hits"))
    events.clear()
    return {"programs": requests, "found": hits}


def run_twice(hosts: HostsConfig) -> dict[str, dict[str, int]]:
    found = {}
    with joined(hosts.coordinator, hosts.count, hosts.index):
        keep_compiled_programs()
        everywhere = NamedSharding(jax.make_mesh((jax.device_count(),), ("all",)), PartitionSpec("all"))
        for start in ("first", "second"):
            ones = jax.make_array_from_callback((8,), everywhere, lambda index: np.ones(8)[index])
            assert float(jax.jit(jnp.sum)(ones)) == 8
            assert float(jax.jit(lambda x: x + jax.process_index())(np.ones(()))) == 1 + jax.process_index()
            found[start] = counts()
            jax.clear_caches()
    return found


if __name__ == "__main__":
    jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
    address, count, index = sys.argv[2:]
    print(json.dumps(run_twice(HostsConfig(coordinator=address, count=int(count), index=int(index)))))
