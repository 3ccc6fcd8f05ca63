import jax
import pytest


@pytest.fixture(autouse=True)
def as_users_compile():
    """With all of the optimizations that other tests go without; and without the compilation cache, from which what is
    compiled for absent devices cannot be read back.
    """
    settings = {"jax_enable_compilation_cache": False, "jax_disable_most_optimizations": False}
    before = {name: jax.config.values[name] for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
