"""Arrays that a step of a loop computes, and how they depend on each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARITHMETIC = frozenset(
    ("abs", "add", "div", "floor", "integer_pow", "max", "min", "mul", "neg", "round", "sign", "sub")
)
FUNCTIONS = frozenset(("cos", "exp", "expm1", "log", "log1p", "logistic", "pow", "rsqrt", "sin", "sqrt", "tan", "tanh"))
DECISIONS = frozenset(("and", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "select_n", "xor"))
ELEMENTWISE = ARITHMETIC | FUNCTIONS | DECISIONS | {"convert_element_type", "copy", "square"}
"""Primitives whose numbers come from the same place of all arguments."""
VIEWS = frozenset(("broadcast_in_dim", "reshape", "squeeze", "slice", "transpose", "neg"))
"""Primitives that factors may be drawn out of."""


class Unsupported(Exception):  # noqa: N818 (it is caught where there is another way)
    """What is computed cannot be said in C; the reason."""


@dataclass(eq=False)
class Node:
    """An array that one step of the loop computes, or is given."""

    op: str
    """Name of a primitive; or "operand", "carry", "known", "row" of an operand, one for every step."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    arguments: tuple[Node, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    value: NDArray[Any] | None = None
    """If it is known."""
    number: int = 0
    """Of operands and what is carried: which."""
    lane: bool = False
    """Whether its last axis is that of the lanes."""
    order: int = 0

    @property
    def rows(self) -> tuple[int, ...]:
        """Its axes but for the lanes."""
        return self.shape[:-1] if self.lane else self.shape

    @property
    def constant(self) -> float | None:
        """The number that it is all over."""
        return None if self.value is None or self.value.size != 1 else self.value.item()


def reached(nodes: Iterable[Node]) -> set[Node]:
    """Some nodes, and all that they are computed from."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.arguments
    return found


@dataclass(eq=False)
class Graph:
    """A step: what is carried comes out as `carried`, and leaves `kept` behind."""

    nodes: list[Node]
    operands: list[Any]
    """What the loop reads, known outside of it."""
    carries: list[Node]
    carried: list[Node]
    kept: list[Node]
