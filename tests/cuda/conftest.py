import jax
import pytest


@pytest.fixture(autouse=True)
def without_compilation_cache():
    """What is compiled for absent devices cannot be read back from it."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    yield
    jax.config.update("jax_enable_compilation_cache", before)
