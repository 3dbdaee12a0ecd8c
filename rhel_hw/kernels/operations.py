"""Operations on single numbers, and on one for every lane, in C."""

from __future__ import annotations

from typing import NamedTuple

from rhel_hw.kernels.nodes import Node, Unsupported


class Term(NamedTuple):
    """A number in C."""

    text: str
    wide: bool
    """Whether it is one for every lane."""
    value: float | None = None
    """If it is known."""


def kind_of(node: Node) -> str:
    """Type of a single number in C."""
    return {"f": "T", "b": "int"}.get(node.dtype.kind, "int64_t")


BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
LOGIC = {"and": "&", "or": "|", "xor": "^"}
FUNCTIONS = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sqrt",
    "rsqrt",
    "pow",
    "logistic",
    "abs",
    "sign",
    "round",
    "floor",
)


def spell(node: Node, terms: list[Term], wide: bool) -> str:
    """An operation in C."""
    op, texts = node.op, [t.text for t in terms]
    if op in BINARY:
        return f"{texts[0]} {BINARY[op]} {texts[1]}"
    if op in LOGIC:
        return f"{texts[0]} {LOGIC[op]} {texts[1]}"
    if op == "neg":
        return f"-{texts[0]}"
    if op == "not":
        return f"~{texts[0]}" if wide else f"!{texts[0]}"
    if op == "square":
        return f"{texts[0]} * {texts[0]}"
    if op == "integer_pow":
        return _power(texts[0], int(node.parameters["y"]), wide)
    if op == "convert_element_type":
        if not wide:
            return f"({'T' if node.dtype.kind == 'f' else 'int64_t'}){texts[0]}"
        if node.arguments[0].dtype.kind == "b" and node.dtype.kind == "f":
            return f"SELECT({texts[0]}, SPREAD(1), ZERO)"
        raise Unsupported("change of type in lanes")
    if op == "select_n":
        if len(terms) != 3:
            raise Unsupported("choice among many")
        if not wide or not terms[0].wide:
            first, second = ((f"SPREAD({t.text})" if wide and not t.wide else t.text) for t in terms[1:])
            return f"{texts[0]} ? {second} : {first}"
        return f"SELECT({texts[0]}, {_spread(terms[2])}, {_spread(terms[1])})"
    if op == "round" and int(node.parameters["rounding_method"]) != 1:
        raise Unsupported("rounding away from zero")
    if op in ("max", "min") or op in FUNCTIONS:
        given = ", ".join(_spread(t) if wide else t.text for t in terms)
        kind = "v" if wide else "i" if node.dtype.kind in "iu" else "s"
        return f"{kind}_{op}({given})"
    raise Unsupported(op)


def _spread(term: Term) -> str:
    return term.text if term.wide else f"SPREAD({term.text})"


def _power(x: str, y: int, wide: bool) -> str:
    if y == 0 or abs(y) > 8:
        raise Unsupported("high powers")
    found = " * ".join([x] * abs(y))
    return found if y > 0 else f"{'SPREAD(1)' if wide else '((T)1)'} / ({found})"
