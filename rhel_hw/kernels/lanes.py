"""Which axes of the arrays of a step are lanes: the last ones, and nothing mixes them."""

from __future__ import annotations

from collections.abc import Iterator

from rhel_hw.kernels.nodes import ELEMENTWISE, Graph, Node, Unsupported


def tell_lanes(graph: Graph) -> None:
    """Find which arrays have lanes: the last axes of what is carried, and all axes that go along with them."""
    group: dict[tuple[int, int], tuple[int, int]] = {}

    def root(a: tuple[int, int]) -> tuple[int, int]:
        while (b := group.get(a, a)) != a:
            a = b
        return a

    def join(a: tuple[int, int], b: tuple[int, int]) -> None:
        group[root(a)] = root(b)

    for node in graph.nodes:
        for argument, axis, own in _together(node):
            join((node.arguments[argument].order, axis), (node.order, own))
    for before, after in zip(graph.carries, graph.carried, strict=True):
        for axis in range(len(before.shape)):
            join((before.order, axis), (after.order, axis))
    seeds = {root((n.order, len(n.shape) - 1)) for n in graph.carries if n.shape}
    for node in graph.nodes:
        axes = [axis for axis in range(len(node.shape)) if node.shape[axis] > 1 and root((node.order, axis)) in seeds]
        if axes and axes != [len(node.shape) - 1]:
            raise Unsupported(f"lanes of {node.op} are not its last axis")
        node.lane = bool(axes)
        if node.constant is None:
            kept = {(k, axis) for k, axis, _ in _together(node)}
            for k, given in enumerate(node.arguments):
                if given.lane and (k, len(given.shape) - 1) not in kept:
                    raise Unsupported(f"{node.op} mixes lanes")
        if node.lane and node.value is not None and node.constant is None:
            graph.operands.append(node.value)
            node.op, node.value, node.number = "operand", None, len(graph.operands) - 1


def _together(node: Node) -> Iterator[tuple[int, int, int]]:
    """Axes that go along: (argument, its axis, axis of the node)."""
    op, parameters, shape = node.op, node.parameters, node.shape
    shapes = [n.shape for n in node.arguments]
    if op == "row":
        yield from ((0, a + 1, a) for a in range(len(shape)))
    elif op in ELEMENTWISE:
        for k, given in enumerate(shapes):
            if len(given) == len(shape):
                yield from ((k, axis, axis) for axis, size in enumerate(given) if size == shape[axis])
    elif op == "broadcast_in_dim":
        for axis, own in enumerate(parameters["broadcast_dimensions"]):
            if shapes[0][axis] == shape[own]:
                yield 0, axis, int(own)
    elif op == "reshape":
        yield from ((0, a, b) for a, b in _kept_axes(shapes[0], shape))
    elif op == "squeeze":
        left = [a for a in range(len(shapes[0])) if a not in parameters["dimensions"]]
        yield from ((0, a, own) for own, a in enumerate(left))
    elif op == "reduce_sum":
        left = [a for a in range(len(shapes[0])) if a not in parameters["axes"]]
        yield from ((0, a, own) for own, a in enumerate(left))
    elif op == "transpose":
        yield from ((0, int(a), own) for own, a in enumerate(parameters["permutation"]))
    elif op in ("slice", "dynamic_slice", "pad", "rev"):
        turned = parameters.get("dimensions", ()) if op == "rev" else ()
        yield from ((0, a, a) for a, size in enumerate(shapes[0]) if size == shape[a] and a not in turned)
    elif op == "tile":
        yield from ((0, a, a) for a, times in enumerate(parameters["reps"]) if times == 1)
    elif op == "stack":
        behind = [a for a in range(len(shape)) if a != parameters["axis"]]
        yield from ((k, a, own) for k in range(len(shapes)) for a, own in enumerate(behind))
    elif op == "concatenate":
        along = parameters["dimension"]
        yield from ((k, a, a) for k, given in enumerate(shapes) for a in range(len(given)) if a != along)
    elif op == "gather":
        yield from ((0, a, own) for own, a in zip(*gathered_axes(node), strict=True))
    elif op in ("scatter", "scatter-add"):
        yield from ((k, a, a) for k in (0, 2) for a in range(1, len(shape)))
    elif op == "dot_general":
        yield from product_axes(node)


def gathered_axes(node: Node) -> tuple[list[int], list[int]]:
    """Axes of what is gathered from that are taken whole, and which they become."""
    numbers = node.parameters["dimension_numbers"]
    if (
        tuple(numbers.collapsed_slice_dims) != (0,)
        or tuple(numbers.start_index_map) != (0,)
        or numbers.operand_batching_dims
    ):
        raise Unsupported("gather along other axes than the first")
    return list(range(1, len(node.arguments[0].shape))), [int(a) for a in numbers.offset_dims]


def product_axes(node: Node) -> Iterator[tuple[int, int, int]]:
    """Axes of factors that are in their product."""
    (contracted, batched) = node.parameters["dimension_numbers"]
    if batched[0] or batched[1]:
        raise Unsupported("products in batches")
    own = 0
    for k, argument in enumerate(node.arguments):
        for axis in range(len(argument.shape)):
            if axis not in contracted[k]:
                yield k, axis, own
                own += 1


def _kept_axes(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Axes that a reshape leaves whole."""
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif before[i] == 1:
            i += 1
        elif after[j] == 1:
            j += 1
        else:
            a, b = before[i], after[j]
            i, j = i + 1, j + 1
            while a != b:
                if a < b:
                    a, i = a * before[i], i + 1
                else:
                    b, j = b * after[j], j + 1
