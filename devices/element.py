"""What an element is: terminals, parameters with dimension, a pure energy, a loss channel, a way to be reversed.

An element is a frozen dataclass. Subclasses declare fields with `terminal`, `reference` and `parameter`, and the
energies that apply to them as static methods of *branch coordinates* and parameters:

- `potential(b, p)`: energy stored in the branch coordinates `b`, one array per row of `branches`;
- `inertia(p)`: mass or capacitance between the terminals, T = inertia·ẋ²/2 of the branch velocity;
- `kinetic(m, p)`: energy of the momenta at the terminals, combined by the rows of `momentum_branches`, instead of
  `inertia`;
- `rotation(n, p)`: energy of the action n = (a·x² + m²/a)/2 at the terminal, a = `aspect(p)`: not separable, but it
  turns (x, m) about the origin, which can be done exactly;
- `conductance(p)`: force per branch velocity, a loss that acts on momenta;
- `decay(p)`: rate at which position and momentum at the terminal decay alike, and the angular frequency there.

Arrays may be SI or dimensionless: the formulas are the same in any consistent system of units.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar, dataclass_transform

from devices.errors import ArgumentError
from devices.units import Dimension, Quantity, UnitError, describe, parse, to_si

Array = Any
Law = Any
"""A static method that gives an energy or one of its coefficients, or None where an element has none."""
Values = SimpleNamespace
"""Parameters and constants of one element, or of a whole group as arrays, by name."""

SMALLEST, LARGEST = 1e-40, 1e40
"""Limits of a parameter's size in SI; no device comes near them, and products of such numbers stay finite."""
NODE_NAME = re.compile(r"[A-Za-z0-9_.+\-/#:\[\]]{1,64}")
MOST_KNOWN = 12
"""Names in a message that has no better suggestion."""
PART_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+\-/#:\[\]]{0,63}")


class ElementError(ArgumentError):
    """A part that cannot be built as described. `part` and `key` say where, `remedy` what to do."""

    def __init__(self, part: str, key: str, message: str, remedy: str = "") -> None:
        super().__init__(f"Argument `{key}` of {part} {message}")
        self.part, self.key, self.message = part, key, message
        self.remedy = remedy or f"correct `{key}`"


@dataclass(frozen=True)
class Domain:
    """A kind of node: what its coordinate and momentum are, and their units."""

    name: str
    position: str
    position_unit: str
    momentum: str
    momentum_unit: str
    velocity: str
    velocity_unit: str
    inertial: bool = True
    """Whether momentum is inertia times velocity; otherwise it is a quadrature of its own."""


ELECTRICAL = Domain("electrical", "flux", "Wb", "charge", "C", "voltage", "V")
MECHANICAL = Domain("mechanical", "displacement", "m", "momentum", "kg*m/s", "velocity", "m/s")
PHOTONIC = Domain("photonic", "quadrature", "", "conjugate quadrature", "J*s", "rate", "Hz", inertial=False)
SPIN = Domain("spin", "azimuth", "rad", "spin momentum", "J*s", "precession", "rad/s", inertial=False)
TEXTURE = Domain("texture", "core position", "m", "gyromomentum", "kg*m/s", "core velocity", "m/s", inertial=False)
DOMAINS = {domain.name: domain for domain in (ELECTRICAL, MECHANICAL, PHOTONIC, SPIN, TEXTURE)}


@dataclass(frozen=True)
class Parameter:
    """A physical parameter: unit, default, the open or closed interval it must lie in, and what is typical."""

    name: str
    unit: str | None
    """Unit whose dimension is due; None where it depends on the nodes that are joined."""
    doc: str
    default: float | None
    above: float
    at_least: float
    below: float
    knob: bool
    """Whether `trainable = true` means this parameter."""
    stored: bool
    """Whether the energy depends on it; otherwise it sets a loss, and cannot be trained."""
    example: Quantity
    """A value that works together with the examples of other elements."""
    typical: str

    @property
    def positive(self) -> bool:
        """Whether the parameter can only be greater than zero."""
        return self.above >= 0 or self.at_least > 0

    def read(self, value: Quantity) -> float:
        """SI float of a user's value, checked."""
        if isinstance(value, float) and value == self.default:
            return value  # which may be infinite
        number = to_si(value, self.unit) if self.unit is not None else parse(value)[0]
        if not self.above < number < self.below or number < self.at_least:
            raise UnitError(f"must be {self.range_text()}, but is {number:g}")
        if abs(number) > LARGEST or (self.positive and number < SMALLEST):
            raise UnitError(f"must lie between {SMALLEST:g} and {LARGEST:g} in SI, but is {number:g}")
        return number

    def due_text(self) -> str:
        """What the parameter must be, in words."""
        what = describe(self.unit) if self.unit is not None else "a quantity"
        return what if self.range_text() == "finite" else f"{what} {self.range_text()}"

    def range_text(self) -> str:
        """The permitted interval in words."""
        low = max(self.above, self.at_least)
        words = []
        if math.isfinite(low):
            words.append(f"greater than {low:g}" if low == self.above else f"at least {low:g}")
        if math.isfinite(self.below):
            words.append(f"less than {self.below:g}")
        return " and ".join(words) or "finite"


@dataclass(frozen=True)
class Refusal:
    """Why echo learning cannot use a kind of element, and what to use instead."""

    reason: str
    remedy: str


GROUND = ""
"""Stands for the netlist's ground, whatever its name, where a terminal is left open."""


def terminal(*, default: str | None = None) -> Any:
    """Field for the node that a terminal is tied to; with default=GROUND it is at ground unless given."""
    metadata = {"kind": "terminal"}
    return field(metadata=metadata) if default is None else field(default=default, metadata=metadata)


def reference() -> Any:
    """Field for the name of another element."""
    return field(metadata={"kind": "reference"})


def parameter(
    unit: str | None,
    doc: str,
    *,
    default: float | None = None,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    knob: bool = False,
    stored: bool = True,
    example: Quantity = None,
    typical: str = "",
) -> Any:
    """Field for a physical parameter. Without a default it must be given, and needs an example."""
    metadata = {
        "kind": "parameter",
        "parameter": lambda name: Parameter(
            name,
            unit,
            doc,
            default,
            above,
            at_least,
            below,
            knob,
            stored,
            default if example is None else example,
            typical,
        ),
    }
    return field(metadata=metadata) if default is None else field(default=default, metadata=metadata)


def nearest(word: str, choices: Iterable[str], *, listed: bool = False) -> str:
    """A suggestion for a mistyped word, as the end of a message, which may have listed the choices before."""
    known = list(choices)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean `{close[0]}`?"
    if listed or not known:
        return ""
    return f"; known are {', '.join(sorted(known)[:MOST_KNOWN])}{', …' * (len(known) > MOST_KNOWN)}"


@dataclass(frozen=True, repr=False)
class Part:
    """Anything with a name, terminals and parameters: elements and drives."""

    name: str

    type: ClassVar[str]
    terminals: ClassVar[tuple[str, ...]] = ()
    optional_terminals: ClassVar[tuple[str, ...]] = ()
    references: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    domain: ClassVar[Domain | None] = ELECTRICAL
    summary: ClassVar[str] = ""

    def __post_init__(self) -> None:
        label = f"{self.type} {self.name!r}"
        if not isinstance(self.name, str) or not PART_NAME.fullmatch(self.name):
            raise ElementError(label, "name", "must start with a letter and hold letters, digits or . _ + - / # : [ ]")
        for key in self.terminals:
            node = getattr(self, key)
            node = str(node) if isinstance(node, int) and not isinstance(node, bool) else node
            if node == GROUND and key in self.optional_terminals:
                continue
            if not isinstance(node, str) or not NODE_NAME.fullmatch(node):
                raise ElementError(label, "nodes", f"must be node names without spaces, but one is {node!r}")
            object.__setattr__(self, key, node)
        for key in self.references:
            if not isinstance(getattr(self, key), str):
                raise ElementError(label, key, "must be the name of an element")
        given: dict[str, Dimension] = {}
        for key, info in self.parameters.items():
            try:
                if info.unit is None and (dims := parse(getattr(self, key))[1]) is not None:
                    given[key] = dims
                object.__setattr__(self, key, info.read(getattr(self, key)))
            except UnitError as error:
                text = str(error)
                text = text if text.startswith("must") else f"cannot be read: {text}"
                raise ElementError(label, key, text, f"give `{key}` as {info.due_text()}") from None
        object.__setattr__(self, "given_dimensions", given)

    given_dimensions: ClassVar[Mapping[str, Dimension]] = {}
    """Dimensions as written, for parameters whose due dimension only the netlist knows."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that the terminals are tied to."""
        return tuple(getattr(self, key) for key in self.terminals)

    @property
    def values(self) -> dict[str, float]:
        """Parameters in SI."""
        return {key: getattr(self, key) for key in self.parameters}

    def __repr__(self) -> str:
        from devices.units import to_text

        shown = [self.name, *self.nodes, *(getattr(self, key) for key in self.references)]
        shown += [f"{k}={to_text(v, self.parameters[k].unit or '')}" for k, v in self.values.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Element(Part):
    """A part that stores energy or loses it. Final subclasses are made with `@element`."""

    trainable: Any = field(default=(), kw_only=True)
    """Names of the parameters that learning may change; True means the usual knob."""
    bounds: Any = field(default=(), kw_only=True)
    """Interval for a trained parameter, as a pair, or by name where there are several."""
    tolerance: Any = field(default=(), kw_only=True)
    """Relative spread of a parameter as made, as one number, or by name where there are several."""

    branches: ClassVar[tuple[tuple[int, ...], ...]] = ((1, -1),)
    """Branch coordinates as combinations of the terminals' coordinates, a row each."""
    momentum_branches: ClassVar[tuple[tuple[int, ...], ...] | None] = None
    """The same for momenta; None: as `branches`."""
    linear: ClassVar[bool] = False
    """Whether the energies are quadratic forms of the branch coordinates and momenta."""
    constants: ClassVar[Mapping[str, tuple[float, str]]] = {}
    """Physical constants in the energy, in SI with their unit."""
    borrows: ClassVar[Mapping[str, tuple[int, str]]] = {}
    """What the energy takes from the element at a terminal that lends it: (terminal, parameter or law) by name."""
    lends: ClassVar[tuple[str, ...]] = ()
    inertia: ClassVar[Law] = None
    potential: ClassVar[Law] = None
    stiffness: ClassVar[Law] = None
    """Largest curvature of the potential along each branch: exact for linear ones, a bound otherwise."""
    kinetic: ClassVar[Law] = None
    mobility: ClassVar[Law] = None
    """The same for the kinetic energy along each momentum branch."""
    amplitude: ClassVar[Law] = None
    """Branch coordinate (momentum, without a potential) at which the nonlinearity matters; None for linear ones."""
    rotation: ClassVar[Law] = None
    frequency_shift: ClassVar[Law] = None
    """Change of the angular frequency per action, for energies that are quartic in the amplitude."""
    aspect: ClassVar[Law] = None
    """Momentum over position on a circular orbit."""
    rest_guess: ClassVar[Law] = None
    """Position at the terminal from which the search for a rest point begins; None: zero."""
    conductance: ClassVar[Law] = None
    decay: ClassVar[Law] = None
    frame: ClassVar[Law] = None
    """Frequency (Hz) with which the frame of a resonator's node rotates, 0 in the laboratory; None: no resonator."""
    rotating: ClassVar[bool | None] = None
    """Whether it holds in rotating frames only, or in the laboratory only; None: in either."""
    body: ClassVar[bool] = False
    """Whether it is what moves at its node, where momentum is not inertia times velocity: one per node."""
    alone: ClassVar[bool] = False
    """Whether its kinetic energy holds only if nothing else at the node has inertia."""
    validity: ClassVar[Law] = None
    """(b, m, p) → how much of its range of validity a state uses up; above one the model is left."""
    validity_text: ClassVar[str] = ""
    fault: ClassVar[Law] = None
    """What is wrong with values that are right one by one, as (parameter, message), or None."""
    refusal: ClassVar[Refusal | None] = None
    energy_text: ClassVar[str] = ""
    loss_text: ClassVar[str] = "lossless"
    limits_text: ClassVar[str] = ""
    reversal_text: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        label = f"{self.type} {self.name!r}"
        if self.fault is not None and (found := self.fault(self.numbers)) is not None:
            raise ElementError(label, *found)
        object.__setattr__(self, "trainable", self._trainable(label))
        object.__setattr__(self, "bounds", self._bounds(label))
        object.__setattr__(self, "tolerance", self._tolerance(label))

    @property
    def numbers(self) -> Values:
        """Parameters and constants in SI, as the laws take them; without what is borrowed."""
        return Values(**self.values, **{k: v for k, (v, _) in self.constants.items()})

    @classmethod
    def lent(cls, values: Values, name: str) -> Any:
        """What it lends under this name: a parameter or a law."""
        return getattr(values, name) if name in cls.parameters else getattr(cls, name)(values)

    @classmethod
    def is_massive(cls) -> bool:
        """Whether it gives its nodes a kinetic energy."""
        return cls.inertia is not None or cls.kinetic is not None

    @classmethod
    def stores(cls) -> bool:
        """Whether it has energy at all, or only loses it."""
        return cls.is_massive() or cls.potential is not None or cls.conductance is None

    @property
    def lossy(self) -> bool:
        """Whether it loses energy with the values it has."""
        loss = 0.0 if self.conductance is None else float(self.conductance(self.numbers))
        return loss > 0 or (self.decay is not None and float(self.decay(self.numbers)[0]) > 0)

    def lowered(self, frame: float) -> tuple[Element, str] | None:
        """The element that stands for it at a node whose frame rotates with `frame` (Hz), and why; None: itself."""
        return None

    def _trainable(self, label: str) -> tuple[str, ...]:
        given = self.trainable
        if isinstance(given, bool):
            return tuple(k for k, info in self.parameters.items() if info.knob) if given else ()
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
            raise ElementError(label, "trainable", "must be true, false or a list of parameter names")
        for name in names:
            if name not in self.parameters:
                raise ElementError(
                    label, "trainable", f"names `{name}`, which is no parameter{nearest(name, self.parameters)}"
                )
        return tuple(k for k in self.parameters if k in names)

    def _by_parameter(self, label: str, key: str, given: Any) -> dict[str, Any]:
        """A setting for the knob, or a mapping of settings by parameter name."""
        if isinstance(given, Mapping):
            for name in given:
                if name not in self.parameters:
                    raise ElementError(
                        label, key, f"names `{name}`, which is no parameter{nearest(name, self.parameters)}"
                    )
            return dict(given)
        owners = list(self.trainable) or [k for k, info in self.parameters.items() if info.knob]
        if len(owners) != 1:
            raise ElementError(label, key, "must say which parameter it is for, as a table by parameter name")
        return {owners[0]: given}

    def _bounds(self, label: str) -> dict[str, tuple[float, float]]:
        if self.bounds in ((), None):
            return {}
        bounds = {}
        for key, pair in self._by_parameter(label, "bounds", self.bounds).items():
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise ElementError(label, "bounds", "must be a pair [lowest, highest]")
            try:
                low, high = (self.parameters[key].read(v) for v in pair)
            except UnitError as error:
                raise ElementError(label, "bounds", f"cannot be read: {error}") from None
            value = getattr(self, key)
            if not low < high:
                raise ElementError(label, "bounds", f"must grow, but are {low:g} and {high:g}")
            if not low <= value <= high:
                raise ElementError(label, "bounds", f"must hold the value {value:g}, but are {low:g} and {high:g}")
            bounds[key] = (low, high)
        return bounds

    def _tolerance(self, label: str) -> dict[str, float]:
        if self.tolerance in ((), None):
            return {}
        spread = {}
        for key, value in self._by_parameter(label, "tolerance", self.tolerance).items():
            try:
                spread[key] = to_si(value, "")
            except UnitError as error:
                raise ElementError(label, "tolerance", f"cannot be read: {error}") from None
            if not 0 <= spread[key] < 1:
                raise ElementError(label, "tolerance", f"must lie in [0, 1), but is {spread[key]:g}")
        return spread


ELEMENTS: dict[str, type[Element]] = {}
"""Every element type by the name that design files use."""

P = TypeVar("P", bound=Part)


@dataclass_transform(field_specifiers=(terminal, reference, parameter), frozen_default=True)
def element(type_name: str) -> Callable[[type[P]], type[P]]:
    """Make a class an element and register it under its design-file name."""

    def finish(cls: type[P]) -> type[P]:
        made = complete(cls, type_name)
        assert issubclass(made, Element)
        ELEMENTS[type_name] = made
        return made

    return finish


def complete(cls: type[P], type_name: str) -> type[P]:
    """Turn declarations into a frozen dataclass with its tables of terminals, references and parameters."""
    made = dataclass(frozen=True, repr=False)(cls)
    by_kind: dict[str, list[dataclasses.Field[Any]]] = {"terminal": [], "reference": [], "parameter": []}
    for item in dataclasses.fields(made):
        if "kind" in item.metadata:
            by_kind[item.metadata["kind"]].append(item)
    made.type = type_name
    made.terminals = tuple(item.name for item in by_kind["terminal"])
    made.optional_terminals = tuple(item.name for item in by_kind["terminal"] if item.default == GROUND)
    made.references = tuple(item.name for item in by_kind["reference"])
    made.parameters = {item.name: item.metadata["parameter"](item.name) for item in by_kind["parameter"]}
    made.summary = (made.__doc__ or "").strip().splitlines()[0]
    return made
