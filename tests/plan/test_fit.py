"""What does not fit the devices at hand is refused before anything is loaded; cards are known by their figures."""

from types import SimpleNamespace

import jax
import pytest

from codea1_jax.common.chips import CHIPS, GIB, find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.plan.cuda import CARDS, target_config
from codea1_jax.plan.memory import check_fits_here, least_memory, refuse_what_cannot_fit
from codea1_jax.plan.planned_run import make_planned_run, planned_run_on

GPUS = {kind: chip for kind, chip in CHIPS.items() if not chip.dimensions}
ADAPTERS = ("lora={rank: 32}", "rollout.rows=128", "rollout.cache_tokens=131072")


@pytest.fixture
def on_card(monkeypatch):
    """This machine has one card, with this much memory for JAX."""

    def on_card_(gigabytes):
        device = SimpleNamespace(
            platform="gpu", device_kind="Some card", memory_stats=lambda: {"bytes_limit": int(gigabytes * 1e9)}
        )
        monkeypatch.setattr(jax, "devices", lambda *_: [device])
        monkeypatch.setattr(jax, "local_devices", lambda: [device])

    return on_card_


@pytest.mark.parametrize(("gigabytes", "fits"), [(21.6, False), (43.2, False), (72.0, True)])
def test_a_run_starts_only_on_a_card_that_holds_the_least_it_needs(gigabytes, fits, on_card):
    config = load(Config, "1.5b/a1_h100x1", ["hardware=null"])
    needed = max(least_memory(planned_run_on(config, "gpu", 1), cache=False).values())
    assert (needed <= gigabytes * 1e9) is fits
    on_card(gigabytes)
    if fits:
        held = check_fits_here(config)
        assert f"{needed / GIB:.1f} of {gigabytes * 1e9 / GIB:.2f} GiB" in held
        return
    with pytest.raises(UserError, match=r"does not fit 1 x Some card: .* needs at least .*; take more chips"):
        check_fits_here(config)


def test_a_cpu_reports_no_limit():
    assert check_fits_here(load(Config, "micro/a1")) == "not reported by these devices"


def test_every_gpu_is_described_to_the_compiler():
    assert GPUS.keys() == CARDS.keys()
    for kind, chip in GPUS.items():
        major, minor = chip.capability
        target = target_config(find_hardware(f"{kind}:1"))
        assert f"major: {major} minor: {minor} " in target
        assert f"device_memory_size: {chip.memory / 0.9:.0f}" in target


# Of each multiprocessor and cycle: multiplications and additions of bfloat16, summed in float32.
PER_CYCLE = {"a100-80": 2048, "rtx-3090": 512, "rtx-4090": 512, "rtx-5090": 512} | dict.fromkeys(
    ("a10", "a6000", "l4", "l40s"), 1024
)


@pytest.mark.parametrize("kind", PER_CYCLE)
def test_a_card_s_peak_is_what_its_multiprocessors_do_at_its_clock(kind):
    card = CARDS[kind]
    assert GPUS[kind].flops == pytest.approx(PER_CYCLE[kind] * card.multiprocessors * card.clock * 1e9, rel=0.015)


@pytest.mark.parametrize("kind", ["rtx-3090", "rtx-4090", "a10", "l4"])
def test_a_card_of_24_gigabytes_trains_adapters_but_not_all_of_1_5b(kind):
    hardware = find_hardware(f"{kind}:1")
    whole = load(Config, "1.5b/a1_h100x1", ["hardware=null"])
    with pytest.raises(UserError, match=f"does not fit {kind}:1"):
        refuse_what_cannot_fit(make_planned_run(whole, hardware), hardware)
    adapters = load(Config, "1.5b/a1_h100x1", ["hardware=null", *ADAPTERS])
    refuse_what_cannot_fit(make_planned_run(adapters, hardware), hardware)
