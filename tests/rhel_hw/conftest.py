"""A compiler for modules that run many small programs once."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compiler():
    """Programs of a module that runs many small ones once: they are compiled faster, and run more slowly."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
