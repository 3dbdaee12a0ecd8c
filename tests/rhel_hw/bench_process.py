"""A bench in another process: what crosses the pipe are shots, parameters, records and descriptions."""

from __future__ import annotations

import multiprocessing
from contextlib import contextmanager
from typing import Any


def serve(connection: Any, design: str, steps: int, profile: dict[str, Any]) -> None:
    """Answer until nobody is there any more."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from circuits import Netlist
    from rhel_hw import EmulatedBench, Profile

    bench = EmulatedBench(Netlist.load(design).compile(steps=steps), Profile.of(profile), seed=3)
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        connection.send(getattr(bench, name)(*arguments))


class FarBench:
    """The near end of the pipe."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def describe(self) -> Any:
        return self._ask("describe")

    def program(self, parameters: Any) -> None:
        self._ask("program", dict(parameters))

    def run(self, shot: Any) -> Any:
        return self._ask("run", shot)

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._connection.send((name, arguments))
        return self._connection.recv()


@contextmanager
def far_bench(design: str, steps: int, profile: dict[str, Any]) -> Any:
    """A bench in a process of its own, for as long as the context lasts."""
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=serve, args=(far, design, steps, profile), daemon=True)
    process.start()
    far.close()
    try:
        yield FarBench(near)
    finally:
        near.close()
        process.join(timeout=20)
        process.terminate()
