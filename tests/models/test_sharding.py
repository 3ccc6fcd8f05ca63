"""The same numbers on every mesh, and a mesh that does not fit is refused by the setting's name."""

import dataclasses
import json
from pathlib import Path

import jax
import pytest
from jax.sharding import AbstractMesh, AxisType, PartitionSpec
from workers import found_by, start_two, start_worker

from codea1_jax.common.errors import UserError
from codea1_jax.config import MeshConfig
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.published import QWEN25
from codea1_jax.models.sharding import check_divisible, make_mesh, param_shardings, serving_shardings
from codea1_jax.runtime.layout import MESH_AXES, TABLE, batch_shards, constrain, fitting_spec, spec

WORKER = Path(__file__).with_name("sharded_worker.py")
COMPILED = Path(__file__).with_name("compiled.py")
ON_EIGHT_DEVICES = [
    ({"replica": 2, "fsdp": 2, "tensor": 2}, ["learner", "kernel by replica"]),
    ({"fsdp": 2, "tensor": 4}, ["kernel"]),  # more than the two key/value heads
    ({"fsdp": 4, "tensor": 2}, ["paged tokens"]),
]
ON_OTHER_MESHES = [
    ({"fsdp": 8}, ["loss"]),
    ({"fsdp": 4, "tensor": 2}, ["sampler", "tokens", "adapters"]),
    ({"fsdp": 4, "tensor": 2}, ["learner"]),
    ({"replica": 8, "fsdp": 1}, ["learner", "adapters"]),
    ({"fsdp": 2, "tensor": 4}, ["loss"]),  # more than the two key/value heads
    ({"fsdp": 1, "tensor": 8}, ["loss"]),
    ({"replica": 2, "fsdp": 1, "tensor": 4}, ["tokens"]),
]
ON_TWO_PROCESSES = [
    ({"fsdp": 4, "tensor": 2}, ["learner", "tokens"]),
    ({"replica": 2, "fsdp": 2, "tensor": 2}, ["learner"]),
]


def check_small(found, cases):
    differences = found["differences"]
    assert list(map(len, differences)) == [len(names) for _, names in cases]
    assert max(map(max, differences)) < 1e-5, differences


@pytest.mark.long
@pytest.mark.parametrize(("inner", "tokens", "hidden"), [(4096, 4096, 1), (8960, 12_288, 2)])
def test_a_matrix_that_chips_share_is_gathered_whole_and_its_gradient_hides_the_sums_over_tensor(inner, tokens, hidden):
    """XLA for TPU would rather wait for all sums, and exchange pieces of the matrix inside the product, which its own
    estimate has at six times the time. And no chip waits for the sums of a whole table."""
    found = found_by(start_worker(COMPILED, "matrix", str(inner), str(tokens)))
    embedding = found.pop("embedding")
    assert found == {"kinds": ["all-gather"], "hidden": hidden}
    assert embedding["scatters"] == [["f32", "unique_indices=true"]]
    assert embedding["received"] < 2 * 1024 * 1536  # the columns of all rows in bfloat16


def test_updates_samples_and_kernels_that_xla_cannot_partition_give_the_same_on_eight_devices(tmp_path):
    """And gradients cross the network between replicas, which may be slices of a pod, once in an update."""
    found = found_by(start_worker(WORKER, str(tmp_path), json.dumps(ON_EIGHT_DEVICES), devices=8))
    check_small(found, ON_EIGHT_DEVICES)
    received = found["received"]
    assert received["micro-batch"] < 0.01 * received["parameters"]  # figures of the loss alone
    assert received["update"] == pytest.approx(2 * 7 / 8 * received["parameters"], rel=0.01)


@pytest.mark.long
def test_losses_gradients_updates_and_samples_on_every_mesh_equal_one_device(tmp_path):
    check_small(found_by(start_worker(WORKER, str(tmp_path), json.dumps(ON_OTHER_MESHES), devices=8)), ON_OTHER_MESHES)


@pytest.mark.long
def test_losses_gradients_updates_and_samples_on_two_processes_equal_one_device(tmp_path):
    workers = start_two(WORKER, str(tmp_path), json.dumps(ON_TWO_PROCESSES), devices=4)
    for found in map(found_by, workers):
        check_small(found, ON_TWO_PROCESSES)


def test_mesh_sizes_are_completed_and_checked():
    assert MeshConfig().shape(8) == (1, 8, 1)
    assert MeshConfig(tensor=2, replica=2).shape(8) == (2, 2, 2)
    assert MeshConfig(fsdp=4, tensor=-1).shape(8) == (1, 4, 2)
    with pytest.raises(ValueError, match=r"mesh\.tensor=3 does not fit 8 devices"):
        MeshConfig(tensor=3).shape(8)
    with pytest.raises(ValueError, match="does not fit 8 devices"):
        MeshConfig(fsdp=2, tensor=2).shape(8)
    with pytest.raises(ValueError, match="one of them may be -1"):
        MeshConfig(tensor=-1).shape(8)
    with pytest.raises(ValueError, match=r"mesh\.tensor=0"):
        MeshConfig(tensor=0).shape(8)


@dataclasses.dataclass(frozen=True)
class Device:
    """As one of several slices presents itself."""

    id: int
    slice_index: int
    platform: str = "gpu"
    device_kind: str = "of no known topology"
    process_index: int = 0


def test_replicas_lie_on_slices_of_their_own():
    devices = [Device(index, index % 2) for index in range(8)]
    for replica, tensor in ((2, 2), (4, 2)):
        mesh = make_mesh(MeshConfig(replica=replica, tensor=tensor), devices)
        slices = [{device.slice_index for device in row.flat} for row in mesh.devices]
        assert slices == [{0}] * (replica // 2) + [{1}] * (replica // 2)
    with pytest.raises(UserError, match=r"mesh\.replica=1 must be a multiple of the 2 slices"):
        make_mesh(MeshConfig(), devices)


def abstract_mesh(**sizes):
    shape = tuple(sizes.get(axis, 1) for axis in MESH_AXES)
    return AbstractMesh(shape, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def test_two_axes_on_one_mesh_axis_are_a_collision():
    with pytest.raises(ValueError, match="tensor of the mesh would split two"):
        spec("heads", "mlp")
    with pytest.raises(ValueError, match="fsdp of the mesh would split two"):
        spec("batch", "embed")


def test_every_axis_of_every_published_model_is_in_the_table():
    for config in QWEN25.values():
        shardings = param_shardings(Transformer(config), abstract_mesh())
        assert all(sharding.mesh.axis_names == MESH_AXES for sharding in jax.tree.leaves(shardings))
    assert {axis for axes in TABLE.values() for axis in axes} == set(MESH_AXES)


def test_parameters_are_split_by_the_table():
    shardings = param_shardings(Transformer(QWEN25["7b"]), abstract_mesh(fsdp=8, tensor=4))
    layers = shardings["layers"]
    assert shardings["embed_tokens"].spec == PartitionSpec("tensor", "fsdp")
    assert layers["self_attn"]["k_proj"]["kernel"].spec == PartitionSpec(None, "fsdp", "tensor")
    assert layers["self_attn"]["o_proj"]["kernel"].spec == PartitionSpec(None, "tensor", "fsdp")
    assert layers["mlp"]["down_proj"]["kernel"].spec == PartitionSpec(None, "tensor", "fsdp")


def test_key_value_heads_stay_whole_where_the_mesh_does_not_divide_them():
    shardings = param_shardings(Transformer(QWEN25["1.5b"]), abstract_mesh(fsdp=4, tensor=4))
    attention = shardings["layers"]["self_attn"]
    assert attention["k_proj"]["kernel"].spec == PartitionSpec(None, "fsdp", None)
    assert attention["q_proj"]["kernel"].spec == PartitionSpec(None, "fsdp", "tensor")


def test_serving_splits_parameters_over_tensor_alone():
    shardings = serving_shardings(Transformer(QWEN25["7b"]), abstract_mesh(fsdp=8, tensor=4))
    layers = shardings["layers"]
    assert shardings["embed_tokens"].spec == PartitionSpec("tensor", None)
    assert layers["self_attn"]["q_proj"]["kernel"].spec == PartitionSpec(None, None, "tensor")
    assert layers["mlp"]["down_proj"]["kernel"].spec == PartitionSpec(None, "tensor", None)


def test_a_vocabulary_that_the_mesh_does_not_divide_stays_whole():
    shape = dataclasses.replace(QWEN25["0.5b"], vocab_size=257)
    shardings = param_shardings(Transformer(shape), abstract_mesh(fsdp=4, tensor=2))
    assert shardings["embed_tokens"].spec == PartitionSpec(None, "fsdp")


@pytest.mark.parametrize(
    ("size", "mesh", "line"),
    [
        ("7b", {"tensor": 8}, "mesh.tensor=8 does not divide num_heads=28: set mesh.tensor to 7 or"),
        ("1.5b", {"fsdp": 7}, "mesh.fsdp=7 does not divide hidden_size=1536: set mesh.fsdp to 6 or"),
    ],
)
def test_a_mesh_that_does_not_divide_the_model_is_refused(size, mesh, line):
    with pytest.raises(ValueError) as error:
        check_divisible(QWEN25[size], abstract_mesh(**mesh))
    assert line in str(error.value)


def test_activations_that_do_not_divide_stay_whole():
    mesh = abstract_mesh(fsdp=4, tensor=4)
    axes = ("batch", "time", "kv_heads", "head_dim")
    assert fitting_spec(axes, (1, 5, 2, 16), mesh) == PartitionSpec(None, None, None, None)
    whole_batch = PartitionSpec(("replica", "fsdp"), None, "tensor", None)
    assert fitting_spec(axes, (8, 5, 4, 16), mesh) == whole_batch


def test_without_a_mesh_nothing_is_constrained():
    x = jax.numpy.ones((2, 3))
    assert constrain(x, "batch", "time") is x
    assert batch_shards() == 1


def test_the_mesh_in_use_says_how_the_batch_is_split():
    with jax.set_mesh(make_mesh(MeshConfig(), jax.devices()[:1])):
        assert batch_shards() == 1
    with jax.sharding.use_abstract_mesh(abstract_mesh(replica=2, fsdp=4, tensor=2)):
        assert batch_shards() == 8
