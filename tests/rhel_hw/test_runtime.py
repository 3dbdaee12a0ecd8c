"""Setting up JAX: processes of their own, since it is done once, before anything is computed."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
from rhel_hw.runtime import configure
configure({arguments})
assert "jax" not in sys.modules
import jax
jax.jit(lambda x: jax.numpy.sin(x) + x @ x)(jax.numpy.ones((40, 40))).block_until_ready()
names = ("jax_enable_x64", "jax_compilation_cache_dir")
print(json.dumps({{name: getattr(jax.config, name) for name in names}} | {{"flags": os.environ["XLA_FLAGS"]}}))
"""


def configured(arguments="", **environment):
    """What JAX was told in a process that called `configure`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "RHEL_HW_"))}
    program = [sys.executable, "-c", PROGRAM.format(arguments=arguments)]
    short = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    done = subprocess.run(program, env={**kept, **short, **environment}, capture_output=True, text=True, check=True)
    assert "Warning" not in done.stderr
    return json.loads(done.stdout)


def test_programs_are_kept_on_disk_and_found_again(tmp_path):
    told = configured(RHEL_HW_CACHE=str(tmp_path))
    assert told["jax_enable_x64"]
    assert told["jax_compilation_cache_dir"].startswith(str(tmp_path))
    (folder,) = tmp_path.iterdir()
    kept = sorted(file.name for file in folder.glob("*-cache"))
    assert kept
    configured(RHEL_HW_CACHE=str(tmp_path))
    assert sorted(file.name for file in folder.glob("*-cache")) == kept


def test_they_are_in_the_users_cache_folder(tmp_path):
    told = configured(XDG_CACHE_HOME=str(tmp_path))
    assert told["jax_compilation_cache_dir"].startswith(str(tmp_path / "rhel-hw" / "programs-"))


@pytest.mark.parametrize(("arguments", "given"), [("cache=False", {}), ("", {"RHEL_HW_CACHE": ""})])
def test_or_nowhere(arguments, given, tmp_path):
    told = configured(arguments, XDG_CACHE_HOME=str(tmp_path), **given)
    assert told["jax_compilation_cache_dir"] is None
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert configured(RHEL_HW_CACHE=str(tmp_path / "file"))["jax_compilation_cache_dir"] is None


def test_what_the_user_set_stays(tmp_path):
    own = "--xla_backend_extra_options=xla_cpu_disable_slp_vectorizer"
    told = configured(XLA_FLAGS=own, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"), RHEL_HW_CACHE=str(tmp_path))
    assert told["flags"].split()[0] == own
    assert told["flags"].count("xla_backend_extra_options") == 1
    assert told["jax_compilation_cache_dir"] == str(tmp_path / "own")
    assert "xla_cpu_disable_loop_unrolling" in configured(RHEL_HW_CACHE="")["flags"]
