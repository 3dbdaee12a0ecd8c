"""The words of a SPICE deck: lines, tokens, numbers with suffixes, expressions of parameters, waveforms.

Expressions follow ngspice: natural `log`, `^` and `**` group from the left and bind tighter than a sign, and a
sub-circuit sees the parameters of its caller. Nothing is ever handed to Python's own evaluator, and length and
nesting are bounded, so that a string from a file can neither run for long nor mean more than a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Context, Decimal

from devices import Constant, Points, Pulse, Sine, Waveform, nearest

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?"
_SIGNED = re.compile(rf"([+-]?{_NUMBER})([A-Za-z]*)", re.ASCII)
_TOKEN = re.compile(rf"\s*(?:({_NUMBER}[A-Za-z]*)|([A-Za-z_]\w*)|(\*\*|[-+*/^(),]))", re.ASCII)
_WORD = re.compile(r"\s*(?:(\{[^{}]*\}|'[^']*'|[^\s(){}',=]+|[()=])|,)|\s+$")
_COMMENT = re.compile(r";.*|(?:^|(?<=\s))\$(?=\s|$).*", re.DOTALL)
PART_LIKE = re.compile(r"[rlci]\w*\s+\S+\s+\S+\s+[\d.]\S*", re.IGNORECASE | re.ASCII)
"""A first line that is meant as a part, though SPICE takes it for the title."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\s*=", re.ASCII)
_SIGNS = ("(", ")", "=")
_SCALES = {
    "meg": "1e6", "mil": "25.4e-6", "t": "1e12", "g": "1e9", "k": "1e3", "m": "1e-3",
    "u": "1e-6", "n": "1e-9", "p": "1e-12", "f": "1e-15",
}  # fmt: skip
_EXACT = Context(prec=200)
_LONGEST, _DEEPEST = 1000, 40
_FUNCTIONS: Mapping[str, tuple[int, Callable[..., float]]] = {
    "sqrt": (1, math.sqrt), "exp": (1, math.exp), "log": (1, math.log), "log10": (1, math.log10), "sin": (1, math.sin),
    "cos": (1, math.cos), "tan": (1, math.tan), "abs": (1, math.fabs), "min": (2, min), "max": (2, max),
}  # fmt: skip


class SpiceError(ValueError):
    """What is wrong with a piece of a deck, and how to mend it."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy


def number(text: str) -> float:
    """SPICE number, rounded once: ``number("3.3nH") == 3.3e-9``. Letters after the suffix are a unit and ignored."""
    match = _SIGNED.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        raise SpiceError(f"a value must be a number such as 10n or 4.7MEG, but is {text[:40]!r}", "write a number")
    digits, letters = match.groups()
    scale = next((s for key, s in _SCALES.items() if letters.lower().startswith(key)), "1")
    value = float(_EXACT.multiply(Decimal(digits), Decimal(scale)))
    if not math.isfinite(value):
        raise SpiceError(f"a value must be finite, but {text[:40]!r} is too large", "write a smaller number")
    return value


def logical_lines(text: str) -> tuple[str, list[tuple[int, str]], list[tuple[int, str]]]:
    """Title, numbered lines with comments taken out and continuations joined, and the ``*rhel`` comments."""
    title, *rest = re.split(r"\r\n|\n|\r", text)
    found: list[tuple[int, list[str]]] = []
    own = []
    for line, raw in enumerate(rest, 2):
        bare = raw.strip()
        if re.match(r"\*rhel(\s|$)", bare):
            own.append((line, bare[6:]))
        elif not bare.startswith("*") and (bare := _COMMENT.sub("", bare).strip()):
            if bare.startswith("+") and found:
                found[-1][1].append(bare[1:])
            else:
                found.append((line, [bare]))
    return title.strip(), [(line, " ".join(parts).strip()) for line, parts in found], own


def words(text: str) -> list[str]:
    """Tokens of a line: words, ``(``, ``)``, ``=``, and expressions in braces or quotes as one token each."""
    found, place = [], 0
    while place < len(text):
        match = _WORD.match(text, place)
        if match is None:
            raise SpiceError(f"braces or quotes do not balance at {text[place : place + 20].strip()!r}", "balance them")
        if match[1]:
            found.append(match[1])
        place = match.end()
    return found


def arguments(given: list[str]) -> tuple[list[str], dict[str, str]]:
    """Words of a line as those that stand alone and those that follow ``key =``, keys in lower case."""
    alone: list[str] = []
    keyed: dict[str, str] = {}
    place = 0
    while place < len(given):
        word = given[place]
        if word in _SIGNS:
            raise SpiceError(f"{word!r} stands where a word is due", "write nodes and values, then key=value")
        if given[place + 1 : place + 2] != ["="]:
            alone.append(word)
            place += 1
            continue
        value = given[place + 2 : place + 3]
        if not value or value[0] in _SIGNS or word.lower() in keyed:
            raise SpiceError(f"`{word[:64]}` must be given one value", f"write {word[:64]}=value once")
        keyed[word.lower()] = value[0]
        place += 3
    return alone, keyed


def assignments(text: str) -> dict[str, str]:
    """Parameters of a `.param` line, whose expressions may hold spaces."""
    places = list(_ASSIGNMENT.finditer(text))
    if not places or text[: places[0].start()].strip():
        raise SpiceError("must define parameters by name", "write `.param name=value`")
    ends = [m.start() for m in places[1:]] + [len(text)]
    found = {m[1].lower(): text[m.end() : end] for m, end in zip(places, ends, strict=True)}
    if len(found) < len(places):
        raise SpiceError("defines a parameter twice", "keep one definition")
    return found


class Scope:
    """Parameters by name, whatever the case; each is evaluated when it is first asked for."""

    def __init__(self, texts: Mapping[str, str], parent: Scope | None = None, given: Mapping[str, float] | None = None):
        self._texts, self._parent = texts, parent
        self._values = dict(given or {})
        self._open: list[str] = []

    def names(self) -> set[str]:
        """Every parameter that can be seen from here."""
        return {*self._texts, *self._values, *(self._parent.names() if self._parent else ())}

    def value(self, name: str, depth: int = 0) -> float:
        """Value of a parameter."""
        key = name.lower()
        if key in self._values:
            return self._values[key]
        if key in self._open:
            cycle = " -> ".join([*self._open[self._open.index(key) :], key])
            raise SpiceError(f"parameter `{key}` depends on itself: {cycle}", "break the cycle")
        if key in self._texts:
            self._open.append(key)
            try:
                self._values[key] = evaluate(self._texts[key], self, depth + 1)
            finally:
                self._open.pop()
            return self._values[key]
        if self._parent is not None:
            return self._parent.value(key, depth)
        if key == "pi":
            return math.pi
        raise LookupError(key)


def evaluate(text: str, scope: Scope, depth: int = 0) -> float:
    """Value of a number, a parameter, or an expression, bare or in braces or quotes."""
    inner = text.strip()
    if inner[:1] + inner[-1:] in ("{}", "''") and len(inner) > 1:
        inner = inner[1:-1]
    if len(inner) > _LONGEST:
        raise SpiceError(f"an expression must have at most {_LONGEST} characters, but has {len(inner)}", "split it")
    return _Expression(inner, scope).value(depth)


def waveform(given: list[str], scope: Scope) -> Waveform | None:
    """Waveform of a source from the words after its nodes."""
    if not given:
        return None
    if given[0].lower() == "dc":
        given = given[1:]
    elif given[0].lower() in ("sin", "pulse", "pwl"):
        return _function(given[0].lower(), given[1:], scope)
    if not given or not given[0][0].isalpha() or len(given) == 1:
        level = evaluate(given[0] if given else "", scope)
        if len(given) <= 1:
            return Constant(level)
        if level == 0 and given[1].lower() in ("sin", "pulse", "pwl"):
            return _function(given[1].lower(), given[2:], scope)
    if "ac" in (w.lower() for w in given):
        raise SpiceError("an AC value has no place in a run over time", "remove `AC` and its numbers")
    raise SpiceError(f"waveform {' '.join(given)[:40]!r} is not read", "write one of DC, SIN, PULSE and PWL")


def _function(kind: str, given: list[str], scope: Scope) -> Waveform:
    inner = given[1:-1] if len(given) > 1 and given[0] + given[-1] == "()" else given
    if {"(", ")", "="} & set(inner):
        raise SpiceError(f"{kind.upper()} must have numbers only", f"write {kind.upper()}(...) and nothing after it")
    values = [evaluate(w, scope) for w in inner]
    if kind == "sin" and 3 <= len(values) <= 6:
        offset, amplitude, frequency, delay, damping, phase = values + [0.0] * (6 - len(values))
        if damping or phase:
            raise SpiceError(f"SIN has a {'damping' if damping else 'phase'}, which is not modelled", "leave it out")
        return Sine(amplitude, frequency, offset, delay)
    if kind == "pulse" and 6 <= len(values) <= 7:
        low, high, delay, rise, fall, width, period = values + [0.0] * (7 - len(values))
        return Pulse(high, width, low, delay, rise, fall, period)
    if kind == "pwl" and values and len(values) % 2 == 0:
        return Points(tuple(values[::2]), tuple(values[1::2]))
    form = {"sin": "SIN(VO VA FREQ TD)", "pulse": "PULSE(V1 V2 TD TR TF PW PER)", "pwl": "PWL(T1 V1 T2 V2)"}[kind]
    raise SpiceError(f"{kind.upper()} must be like {form}, but has {len(values)} values", f"write {form}")


def negated(wave: Waveform | None) -> Waveform | None:
    """Turn a source round."""
    match wave:
        case Constant():
            return Constant(-wave.level)
        case Sine():
            return replace(wave, amplitude=-wave.amplitude, offset=-wave.offset)
        case Pulse():
            return replace(wave, high=-wave.high, low=-wave.low)
        case Points():
            return replace(wave, values=tuple(-v for v in wave.values))
    return None


class _Expression:
    """Recursive descent over one expression; `depth` counts brackets and parameters inside parameters alike."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text, self.scope, self.place = text, scope, 0
        self.tokens: list[tuple[str, str]] = []
        end, place = len(text.rstrip()), 0
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                raise self.refused(f"has {text[place:].strip()[:1]!r}, which means nothing here")
            self.tokens.append((("number", "name", "sign")[(match.lastindex or 1) - 1], match[match.lastindex or 1]))
            place = match.end()

    def refused(self, why: str) -> SpiceError:
        return SpiceError(f"expression {self.text[:60]!r} {why}", "write arithmetic such as {2*pi*sqrt(L*C)}")

    def value(self, depth: int) -> float:
        result = self.sum(depth)
        if self.place < len(self.tokens):
            raise self.refused(f"must end before {self.tokens[self.place][1][:20]!r}")
        return result

    def peek(self) -> str:
        kind, text = self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")
        return text if kind == "sign" else ""

    def take(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.refused(f"must have {sign!r} after {' '.join(t for _, t in self.tokens[: self.place])[-20:]!r}")
        self.place += 1

    def finite(self, compute: Callable[..., float], *values: float) -> float:
        try:
            result = float(compute(*values))
        except (ArithmeticError, ValueError):
            result = math.nan
        if not math.isfinite(result):
            raise self.refused("must be finite, but divides by zero, overflows or leaves the real numbers")
        return result

    def sum(self, depth: int) -> float:
        result = self.product(depth)
        while (sign := self.peek()) in ("+", "-"):
            self.place += 1
            other = self.product(depth)
            result = self.finite(lambda a, b: a + b, result, other if sign == "+" else -other)
        return result

    def product(self, depth: int) -> float:
        result = self.signed(depth)
        while (sign := self.peek()) in ("*", "/"):
            self.place += 1
            other = self.signed(depth)
            result = self.finite((lambda a, b: a * b) if sign == "*" else (lambda a, b: a / b), result, other)
        return result

    def signs(self) -> float:
        factor = 1.0
        while (sign := self.peek()) in ("+", "-"):
            self.place += 1
            factor = -factor if sign == "-" else factor
        return factor

    def signed(self, depth: int) -> float:
        factor = self.signs()
        result = self.atom(depth)
        while self.peek() in ("^", "**"):
            self.place += 1
            power = self.signs() * self.atom(depth)
            result = self.finite(math.pow, result, power)
        return factor * result

    def atom(self, depth: int) -> float:
        if depth > _DEEPEST:
            raise self.refused(f"is nested more than {_DEEPEST} deep")
        if self.place >= len(self.tokens):
            raise self.refused("must go on, but ends" if self.tokens else "must hold something, but is empty")
        kind, text = self.tokens[self.place]
        if text == "(":
            self.place += 1
            result = self.sum(depth + 1)
            self.take(")")
            return result
        if kind == "sign":
            raise self.refused(f"must have a value where {text!r} stands")
        self.place += 1
        if kind == "number":
            return number(text)
        if self.peek() == "(":
            return self.call(text, depth)
        try:
            return self.scope.value(text, depth)
        except LookupError:
            known = nearest(text[:64].lower(), self.scope.names() | {"pi"})
            raise SpiceError(f"`{text[:64]}` is no parameter{known}", "define it with .param") from None

    def call(self, name: str, depth: int) -> float:
        if name.lower() not in _FUNCTIONS:
            raise SpiceError(f"`{name[:64]}` is no function{nearest(name[:64].lower(), _FUNCTIONS)}", "use a known one")
        count, function = _FUNCTIONS[name.lower()]
        self.take("(")
        values = [self.sum(depth + 1)]
        while self.peek() == ",":
            self.place += 1
            values.append(self.sum(depth + 1))
        self.take(")")
        if (len(values) != 1) if count == 1 else (len(values) < 2):
            raise self.refused(
                f"gives `{name}` {len(values)} values, but it takes {'one' if count == 1 else 'two or more'}"
            )
        return self.finite(function, *values)
