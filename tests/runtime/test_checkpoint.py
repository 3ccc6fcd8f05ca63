import shutil
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from full_disk import file_size_limit

from codea1_jax.common.errors import UserError
from codea1_jax.runtime.checkpoints import CheckpointError, Checkpoints
from codea1_jax.runtime.fingerprint import fingerprint

DOCUMENT = {"book": {"q/1": [["f(1)", "2", 3]]}, "rng": 7, "loss": 0.1 + 0.2, "text": "é\n", "none": None}


def make_arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "code": {"w": jnp.asarray(rng.normal(size=(60, 100)), jnp.float32), "count": jnp.int32(seed)},
        "moments": (jnp.asarray(rng.normal(size=(9,)), jnp.bfloat16), jnp.array([True, False])),
        "reference": None,
    }


def same_bytes(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_step_comes_back_bit_for_bit(tmp_path):
    arrays = make_arrays()
    arrays["code"]["w"] = arrays["code"]["w"].at[0, :3].set(jnp.array([jnp.nan, -0.0, jnp.inf]))
    with Checkpoints(tmp_path / "c") as checkpoints:
        assert checkpoints.latest() is None
        checkpoints.save(4, arrays, DOCUMENT)
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), arrays)
    with Checkpoints(tmp_path / "c") as reopened:
        assert reopened.latest() == 4
        restored, document = reopened.restore(4, like)
    same_bytes(restored, arrays)
    assert document == DOCUMENT


def test_the_last_steps_are_kept(tmp_path):
    with Checkpoints(tmp_path, keep_last=2) as checkpoints:
        for step in (1, 2, 10):
            checkpoints.save(step, make_arrays(step), DOCUMENT)
    with Checkpoints(tmp_path) as reopened:
        assert reopened.steps() == (2, 10)
        same_bytes(reopened.restore(2, make_arrays())[0], make_arrays(2))


def test_arrays_may_be_donated_as_soon_as_save_returns(tmp_path):
    overwrite = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    values = np.random.default_rng(0).normal(size=(2_000_000,)).astype(np.float32)
    with Checkpoints(tmp_path) as checkpoints:
        for step in range(3):
            array = jnp.array(values)
            checkpoints.save(step, {"a": array}, {})
            overwrite(array).block_until_ready()
            checkpoints.wait()
            restored, _ = checkpoints.restore(step, {"a": jnp.array(values)})
            np.testing.assert_array_equal(restored["a"], values)


def test_every_damaged_file_is_noticed_or_does_no_harm(tmp_path):
    """Each file of a step in turn is removed, emptied, cut in half, or has a bit flipped."""
    with Checkpoints(tmp_path / "c") as checkpoints:
        checkpoints.save(3, make_arrays(3), DOCUMENT)
        checkpoints.save(5, make_arrays(5), DOCUMENT)
    refused = set()
    for path in [path for path in (tmp_path / "c" / "5").rglob("*") if path.is_file()]:
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]
        for damage in (None, b"", content[:middle], flipped):
            path.unlink() if damage is None else path.write_bytes(damage)
            with Checkpoints(tmp_path / "c") as checkpoints:
                try:
                    arrays, document = checkpoints.restore(5, make_arrays())
                except CheckpointError as error:
                    assert "step 5" in str(error)
                    refused |= {item for item in ("'arrays", "'document'") if item in str(error)}
                else:
                    same_bytes(arrays, make_arrays(5))
                    assert document == DOCUMENT
                same_bytes(checkpoints.restore(3, make_arrays())[0], make_arrays(3))
            path.write_bytes(content)
    assert refused == {"'arrays", "'document'"}


@pytest.mark.parametrize("item", ["arrays", "document"])
def test_a_missing_item_is_refused_by_name(tmp_path, item):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_arrays(), DOCUMENT)
        checkpoints.wait()
        shutil.rmtree(tmp_path / "1" / item)
        with pytest.raises(CheckpointError, match=f"step 1 .*'{item}'"):
            checkpoints.restore(1, make_arrays())


def test_a_step_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_arrays(), DOCUMENT)
        checkpoints.wait()
        with pytest.raises(UserError, match=r"no step 2; it has \[1\]"):
            checkpoints.restore(2, make_arrays())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": jnp.zeros(3)}, r"holds nothing at 'reference' where float32\[3\] is wanted"),
        ({"moments": None}, r"holds bfloat16\[9\] at 'moments/0' where nothing is wanted"),
        ({"code": {"w": jnp.zeros((60, 99)), "count": jnp.int32(0)}}, r"float32\[60, 100\] at 'code/w'"),
    ],
)
def test_arrays_of_another_run_are_refused_by_name(tmp_path, change, message):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_arrays(), DOCUMENT)
        checkpoints.wait()
        with pytest.raises(CheckpointError, match=message):
            checkpoints.restore(1, make_arrays() | change)


def test_a_full_disk_is_a_clear_error_and_earlier_steps_stay(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_arrays(1), DOCUMENT)
        checkpoints.wait()
        with file_size_limit(4096), pytest.raises(CheckpointError, match=r"cannot save.*saved: \[1\]"):
            checkpoints.save(2, make_arrays(2), DOCUMENT)
            checkpoints.wait()
        assert [path.name for path in tmp_path.iterdir()] == ["1"]
        same_bytes(checkpoints.restore(1, make_arrays())[0], make_arrays(1))
        checkpoints.save(3, make_arrays(3), DOCUMENT)
        checkpoints.wait()
        same_bytes(checkpoints.restore(3, make_arrays())[0], make_arrays(3))


def test_a_save_that_has_failed_in_the_background_need_not_be_waited_for(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_arrays(1), DOCUMENT)
        checkpoints.wait()
        checkpoints.check()
        with file_size_limit(4096):
            until = time.monotonic() + 30
            with pytest.raises(CheckpointError, match=r"cannot save.*saved: \[1\]"):
                checkpoints.save(2, make_arrays(2), DOCUMENT)
                while time.monotonic() < until:
                    checkpoints.check()
                    time.sleep(0.01)
        checkpoints.check()


SAVER = """
import sys
import jax.numpy as jnp
from codea1_jax.runtime.checkpoints import Checkpoints
checkpoints = Checkpoints(sys.argv[1], keep_last=2)
step = (checkpoints.latest() or 0) + 1
while True:
    checkpoints.save(step, {"a": jnp.full((300_000,), step, jnp.float32)}, {"step": step})
    print(step, flush=True)
    step += 1
"""


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.05])
def test_a_kill_at_any_instant_leaves_a_good_step(tmp_path, delay):
    process = subprocess.Popen([sys.executable, "-c", SAVER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 4:
            break
    time.sleep(delay)
    process.kill()
    process.wait()
    with Checkpoints(tmp_path) as checkpoints:
        latest = checkpoints.latest()
        assert latest is not None and latest >= 3
        arrays, document = checkpoints.restore(latest, {"a": jnp.zeros(300_000)})
        assert document == {"step": latest}
        np.testing.assert_array_equal(arrays["a"], np.full(300_000, latest))
        again = latest + 1  # the step that was interrupted, if one was
        checkpoints.save(again, {"a": jnp.full((300_000,), again, jnp.float32)}, {"step": again})
        checkpoints.wait()
        arrays, document = checkpoints.restore(again, {"a": jnp.zeros(300_000)})
        assert document == {"step": again}
        np.testing.assert_array_equal(arrays["a"], np.full(300_000, again))
        assert {path.name for path in tmp_path.iterdir()} == {str(step) for step in checkpoints.steps()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
def test_a_fingerprint_changes_with_one_element_and_with_the_order(dtype):
    values = np.arange(6) % 2 if dtype == "bool" else np.arange(6)
    array = jnp.asarray(values, dtype)
    changed = array.at[3].set(jnp.asarray(0, dtype))
    assert len({int(fingerprint(x)) for x in (array, changed, array[::-1])}) == 3
    assert int(fingerprint(array)) == int(fingerprint(jnp.asarray(values, dtype)))
