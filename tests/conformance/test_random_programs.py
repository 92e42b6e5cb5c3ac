"""Random well-typed programs, on every backend against an eager NumPy model of the language.

Programs are text, one line per array, that runs with `td` bound to treadle or to `Model`. Floats
hold whole numbers up to 1000, so that everything but the last, transcendental line is exact.
Arguments come in any layout, and some are one array; they stay as they are, and results are the
caller's own.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import treadle

from .helpers import assert_same, boundary_index, dt, generator
from .model import Model

KINDS = ("int64", "int32", "uint8", "float64", "float32", "bool")
LIMIT = 1000
MOST_ELEMENTS = 3000


# ---------------------------------------------------------------------------------------------
# Drawing programs

NAMES = "xyzuvw"
LAYOUTS = ("dense", "dense", "dense", "read-only", "backwards", "columns", "every second",
           "unaligned", "swapped bytes")  # fmt: skip


def _same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def laid_out(value, layout):
    """An array of its own with these values."""
    if layout == "columns":
        return np.array(value, order="F")
    if layout == "swapped bytes":
        return value.astype(value.dtype.newbyteorder())
    if layout == "unaligned":
        made = np.zeros(value.nbytes + 1, "u1")[1:].view(value.dtype).reshape(value.shape)
    elif value.ndim and layout == "backwards":
        made = np.empty_like(value)[::-1]
    elif value.ndim and layout == "every second":
        made = np.zeros((*value.shape, 2), value.dtype)[..., 0]
    else:
        made = np.empty_like(value)
    made[...] = value
    made.flags.writeable = layout != "read-only"
    return made


def constant(text):
    """Whether an expression consists of literals alone (these stay weak, and Python's)."""
    return re.search("[a-z]", text) is None


def kind_of(value):
    return {"b": "b", "i": "i", "u": "i"}.get(value.dtype.kind, "f")


class Writer:
    """Draws a program line by line, running it on the model as it goes."""

    def __init__(self, draw):
        self.draw = draw
        self.lines = []
        self.inputs = {}
        self.model = {"td": Model}

    def pick(self, options):
        return self.draw(st.sampled_from(list(options)))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    @property
    def arrays(self):
        return {n: v for n, v in self.model.items() if isinstance(v, np.ndarray)}

    def choose(self, condition=lambda value: True):
        """The name of an array drawn so far that satisfies a condition, or None."""
        names = [
            n
            for n, v in self.arrays.items()
            if n.startswith("a")
            and condition(v)
            and not (kind_of(v) == "f" and np.max(np.abs(v), initial=0) > LIMIT)
        ]
        return self.pick(names) if names else None

    def new_input(self, shape=None, kind=None):
        if shape is None:
            shape = tuple(self.pick((0, 1, 2, 3, 5, 8, 33)) for _ in range(self.number(0, 3)))
            while np.prod(shape) > MOST_ELEMENTS:
                shape = shape[1:]
        kind = kind or self.pick(KINDS)
        rng = generator("input", shape, kind, self.number(0, 9))
        name = f"a{len(self.model)}"
        values = rng.integers(0 if kind == "uint8" else -99, 100, shape)
        values = values > 0 if kind == "bool" else np.asarray(values).astype(dt(kind))
        values = np.asarray(values)
        alike = [n for n, (v, _) in self.inputs.items() if _same(v, values)]
        layout = self.pick(LAYOUTS)
        self.inputs[name] = values, alike[0] if alike and self.number(0, 1) else layout
        self.model[name] = values
        return name

    def line(self, text):
        """Appends `name = text`; gives the name, or None when the value is out of proportion."""
        with np.errstate(all="ignore"):
            value = eval(text, self.model)
        if value.size > MOST_ELEMENTS:
            return None
        name = f"a{len(self.model)}"
        self.model[name] = np.asarray(value)
        self.lines.append((name, text))
        return name

    # Scalar expressions. Kinds: i(nteger), f(loat), b(ool).

    def whole(self, text, kind):
        """A float expression from any."""
        if kind == "f":
            return text
        if kind == "b":
            return f"td.where({text}, td.float64(3), td.float64(-2))"
        return f"({text} % 101)"

    def expression(self, variables, depth=3):
        """(text, kind) of a random expression over {name: kind}."""
        if depth == 0 or self.number(0, 5) == 0:
            if variables and self.number(0, 3):
                name = self.pick(variables)
                return name, variables[name]
            return str(self.number(0, 5)), "i"
        form = self.pick(("arithmetic", "arithmetic", "bits", "choice", "compare", "divide"))
        left, kind = self.expression(variables, depth - 1)
        right, other = self.expression(variables, depth - 1)
        if constant(left) and constant(right):
            if not variables:
                return left, kind
            left = self.pick(variables)
            kind = variables[left]
        if form == "compare":
            return self.comparison(left, kind, right, other), "b"
        if form == "choice":
            condition = self.truth(variables, depth - 1)
            left, right, kind = self.unify(left, kind, right, other)
            if constant(left) and constant(right):
                left = f"td.int64({left})"
            return f"td.{self.pick(('where', 'cond'))}({condition}, {left}, {right})", kind
        left, right, kind = self.unify(left, kind, right, other)
        if kind == "b":
            return f"({left} {self.pick('&|^')} {right})", "b"
        if form == "arithmetic" or (kind == "f" and form != "arithmetic"):
            symbol = self.pick(("+", "-", "*", "minimum", "maximum"))
            if len(symbol) > 1:
                return f"td.{symbol}({left}, {right})", kind
            text = f"({left} {symbol} {right})"
            return (f"td.clip({text}, -{LIMIT}, {LIMIT})", "f") if kind == "f" else (text, "i")
        if form == "bits":
            symbol = self.pick("&|^" if constant(left) else ("&", "|", "^", "<<", ">>"))
            right = str(self.number(0, 3)) if symbol in ("<<", ">>") else right
            return f"({left} {symbol} {right})", "i"
        return f"({left} {self.pick(('//', '%'))} {right})", "i"

    def unify(self, left, kind, right, other):
        if kind == other:
            return left, right, kind
        if "f" in (kind, other):
            return self.whole(left, kind), self.whole(right, other), "f"
        as_integer = "td.where({}, td.int64(1), td.int64(0))".format
        if kind == "b":
            return as_integer(left), right, "i"
        return left, as_integer(right), "i"

    def comparison(self, left, kind, right, other):
        left, right, kind = self.unify(left, kind, right, other)
        return (
            f"({left} {self.pick(('==', '!=') if kind == 'b' else ('<', '<=', '==', '>'))} {right})"
        )

    def truth(self, variables, depth):
        text, kind = self.expression(variables, depth)
        if constant(text):
            text = self.pick(variables)
            kind = variables[text]
        return text if kind == "b" else f"({text} > 1)"

    def index(self, variables, extent):
        """An integer expression within 0 … extent - 1."""
        text, kind = self.expression({n: k for n, k in variables.items() if k == "i"}, 2)
        if kind != "i":
            text = f"td.where({text}, td.int64(1), td.int64(0))"
        return f"({text}) % {extent}"

    # Lines: each draws one array.

    def tamed(self, name):
        """The named array, or its clipped copy where it holds floats."""
        if name is None or kind_of(self.model[name]) != "f":
            return name
        return self.line(f"td.clip({name}, -{LIMIT}, {LIMIT})")

    def map_line(self):
        first = self.choose()
        shape = self.model[first].shape
        names = [first]
        for _ in range(self.number(0, 2)):
            names.append(self.choose(lambda v: v.shape == shape))
        variables = dict(zip(NAMES, (kind_of(self.model[n]) for n in names), strict=False))
        operation, parameters = "map", ", ".join(variables)
        if self.number(0, 2) == 0:
            operation = "imap"
            indices = [f"i{k}" for k in range(len(shape))]
            parameters = ", ".join([*indices, *variables])
            variables |= dict.fromkeys(indices, "i")
        text, _ = self.expression(variables)
        return self.line(f"td.{operation}(lambda {parameters}: {text}, {', '.join(names)})")

    def generate_line(self):
        shape = tuple(self.pick((0, 1, 2, 5, 9)) for _ in range(self.number(0, 3)))
        variables = {f"i{k}": "i" for k in range(len(shape))}
        inside = dict(variables)
        parameters = ", ".join(variables)
        source = self.choose(lambda v: v.size > 0)
        prefix = ""
        if source is not None and self.number(0, 1):
            value = self.model[source]
            places = [self.index(variables, n) for n in value.shape]
            if places:
                prefix = f"{source}[{', '.join(places)}]"
                inside[prefix] = kind_of(value)
        text, _ = self.expression(inside)
        return self.line(f"td.generate({shape}, lambda {parameters}: {text})")

    def operator_line(self):
        first = self.choose(lambda v: kind_of(v) == "i")
        second = self.choose(lambda v: kind_of(v) == "i")
        if first is None:
            return None
        shapes = [self.model[n].shape for n in (first, second)]
        try:
            whole = np.broadcast_shapes(*shapes)
        except ValueError:
            return None
        for name, shape in zip((first, second), shapes, strict=True):
            # An extent of 1 broadcasts where that is known when the program is built.
            if shape != whole[len(whole) - len(shape) :] and name not in self.inputs:
                return None
        return self.line(f"{first} {self.pick('+-*^')} {second}")

    def slice_line(self):
        name = self.choose(lambda v: v.ndim > 0)
        if name is None:
            return None
        parts = []
        for n in self.model[name].shape:
            form = self.number(0, 4)
            if form == 0 and n:
                parts.append(str(self.number(0, n - 1)))
            elif form == 1:
                parts.append("None, :")
            else:
                start = self.pick(("", "1", "-2", "2", "-40"))
                stop = self.pick(("", "", "-1", "3", "40"))
                parts.append(f"{start}:{stop}:{self.pick((1, 1, 2, -1, -2, 3))}")
        return self.line(f"{name}[{', '.join(parts)}]")

    def move_line(self):
        name = self.choose(lambda v: v.ndim > 0)
        if name is None:
            return None
        value = self.model[name]
        axis = self.number(0, value.ndim - 1)
        form = self.pick(
            (
                "transpose",
                "reverse",
                "roll",
                "flatten",
                "replicate",
                "pad",
                "concatenate",
                "reshape",
                "sort",
                "take",
            )
        )
        if form == "transpose":
            axes = tuple(self.draw(st.permutations(range(value.ndim))))
            return self.line(f"td.transpose({name}, {axes})")
        if form == "flatten":
            return self.line(f"td.flatten({name})")
        if form == "reshape":
            return self.line(f"td.reshape({name}, {tuple(reversed(value.shape))})")
        if form == "replicate":
            return self.line(f"td.replicate({name}, {self.number(0, 3)}, {axis})")
        if form == "pad":
            modes = (
                ("constant",)
                if 0 in value.shape
                else ("constant", "edge", "reflect", "symmetric", "wrap")
            )
            width = tuple((self.number(0, 2), self.number(0, 3)) for _ in value.shape)
            return self.line(f"td.pad({name}, {width}, mode={self.pick(modes)!r})")
        if form == "concatenate":

            def fits(v):
                return (
                    v.ndim == value.ndim
                    and v.dtype == value.dtype
                    and (np.delete(v.shape, axis).tolist() == np.delete(value.shape, axis).tolist())
                )

            return self.line(f"td.concatenate([{name}, {self.choose(fits)}], axis={axis})")
        if form == "sort":
            return self.line(f"td.sort({name}, axis={axis})")
        if form == "take":
            if not value.shape[axis]:
                return None
            places = [self.number(0, value.shape[axis] - 1) for _ in range(self.number(0, 4))]
            return self.line(f"td.take({name}, np.array({places}, 'i8'), axis={axis})")
        amount = "" if form == "reverse" else f", {self.number(-3, 9)}"
        return self.line(f"td.{form}({name}{amount}, axis={axis})")

    def operator(self):
        return self.pick(
            (
                "lambda x, y: x + y",
                "lambda x, y: td.minimum(x, y)",
                "lambda x, y: td.maximum(x, y)",
                "lambda x, y: td.where(x != 0, x, y)",
                "lambda x, y: td.where(y > 5, y, x)",
            )
        )

    def fold_line(self):
        name = self.choose(lambda v: v.ndim > 0 and kind_of(v) != "b")
        if name is None:
            return None
        value = self.model[name]
        axis = self.number(0, value.ndim - 1)
        operator, init = self.operator(), self.number(0, 9)
        form = self.pick(("fold", "fold", "fold1", "scanl", "scanl1", "scanr", "scanr1", "None"))
        if form == "fold1" and not value.shape[axis]:
            return None
        if form == "None":
            return self.tamed(self.line(f"td.fold({operator}, {init}, {name}, axis=None)"))
        start = "" if form.endswith("1") else f"{init}, "
        return self.tamed(self.line(f"td.{form}({operator}, {start}{name}, axis={axis})"))

    def segments_line(self):
        name = self.choose(lambda v: v.ndim > 0 and kind_of(v) != "b")
        if name is None:
            return None
        left, lengths = self.model[name].shape[-1], []
        while left and len(lengths) < 9:
            lengths.append(self.number(0, left))
            left -= lengths[-1]
        lengths.append(left)
        return self.tamed(
            self.line(
                f"td.fold_seg({self.operator()}, {self.number(0, 9)}, {name}, "
                f"np.array({lengths}, 'i8'))"
            )
        )

    def stencil_line(self):
        name = self.choose(lambda v: 0 < v.ndim < 3 and kind_of(v) != "b" and v.size < 700)
        if name is None:
            return None
        rank = self.model[name].ndim
        taps = []
        for _ in range(self.number(1, 4)):
            offset = ", ".join(str(self.number(-4, 4)) for _ in range(rank))
            taps.append(f"w[{offset}] * {self.number(1, 3)}")
        boundary = self.pick(("td.clamp", "td.mirror", "td.symmetric", "td.wrap", "td.constant(7)"))
        return self.tamed(
            self.line(f"td.stencil(lambda w: {' + '.join(taps)}, {name}, boundary={boundary})")
        )

    def backpermute_line(self):
        name = self.choose(lambda v: v.ndim > 0 and v.size > 0)
        if name is None:
            return None
        shape = tuple(self.pick((0, 1, 3, 8)) for _ in range(self.number(1, 2)))
        variables = {f"i{k}": "i" for k in range(len(shape))}
        spread = "0 * (" + " + ".join(variables) + ") + "
        places = [spread + self.index(variables, n) for n in self.model[name].shape]
        return self.line(
            f"td.backpermute({shape}, lambda {', '.join(variables)}: "
            f"({', '.join(places)},), {name})"
        )

    def permute_line(self):
        name = self.choose(lambda v: v.ndim > 0 and kind_of(v) != "b" and v.size < 400)
        if name is None:
            return None
        kind = self.model[name].dtype.name
        if kind_of(self.model[name]) == "f":
            return None
        rank, defaults = self.number(1, 2), None
        if self.number(0, 1):
            defaults = self.choose(
                lambda v: kind_of(v) == "i" and v.ndim == rank and 0 < v.size < 400
            )
        if defaults is None:
            defaults = self.new_input(tuple(self.number(1, 6) for _ in range(rank)), kind)
        variables = {f"i{k}": "i" for k in range(self.model[name].ndim)}
        places = [self.index(variables, n) for n in self.model[defaults].shape]
        target = f"({', '.join(places)},)" if rank > 1 else places[0]
        if self.number(0, 1):
            choice = self.pick(("where", "cond"))
            condition = f"({next(iter(variables))} % 3 != {self.number(0, 2)})"
            target = f"td.{choice}({condition}, {target}, td.ignore)"
        combine = self.pick(("n + o", "td.minimum(n, o)", "td.maximum(n, o)", "n ^ o"))
        return self.line(
            f"td.permute(lambda n, o: {combine}, {defaults}, "
            f"lambda {', '.join(variables)}: {target}, {name})"
        )

    def control_line(self):
        name = self.choose(lambda v: v.ndim > 0 and kind_of(v) == "i")
        if name is None:
            return None
        value = self.model[name]
        other = self.choose(lambda v: v.shape == value.shape and v.dtype == value.dtype)
        form = self.pick(("cond", "iterate", "filter", "matmul"))
        if form == "cond":
            return self.line(f"td.cond(td.sum({name}) > {self.number(0, 99)}, {name}, {other})")
        if form == "iterate":
            return self.line(f"td.iterate({self.number(0, 3)}, lambda s: s * 3 + {other}, {name})")
        if form == "filter":
            return self.line(f"td.filter(lambda x: x % 3 == 1, td.flatten({name}))[0]")
        if value.ndim != 2:
            return None
        return self.line(f"td.matmul({name}, td.transpose({other}))")

    def compute_line(self):
        name = self.choose()
        return self.line(f"td.compute({name})")

    def loop_line(self):
        """A loop over up to three states, which start as one array now and then, and which the
        turns read beside them."""
        name = self.choose(lambda v: v.ndim > 0 and kind_of(v) == "i" and v.size < 100)
        if name is None:
            return None
        value = self.model[name]

        def other():
            return self.choose(lambda v: v.shape == value.shape and v.dtype == value.dtype)

        init = [name, *(other() for _ in range(self.number(0, 2)))]
        states = [f"s[{k}]" for k in range(len(init))]
        all_ = [*states, *init, other()]
        indices = [f"i{k}" for k in range(value.ndim)]
        places = ", ".join(f"{n - 1} - {i}" for i, n in zip(indices, value.shape, strict=True))
        backwards = f"lambda {', '.join(indices)}: ({places},)"
        forms = (
            "{a} * 3 + {b}",
            "{b}",
            "{b} - td.reverse({a}, axis=0)",
            "td.scanl1(lambda x, y: x + y, {b})",
            "td.compute({b}) ^ {a}",
            "td.maximum({a}, {b}) + 1",
            f"td.permute(lambda n, o: n + o, {{b}}, {backwards}, {{a}})",
            "td.cond(td.sum({a}) % 3 == 1, {b}, {a})",
        )

        def part():
            return self.pick(forms).format(a=self.pick(all_), b=self.pick(all_))

        body = ", ".join(part() for _ in init)
        turns, which = self.pick((0, 1, 2, 3, 4, 7, 20)), self.number(0, len(init) - 1)
        form = self.pick(("iterate", "loop", "while_loop"))
        if form != "while_loop":
            given = "s" if form == "iterate" else "k, s"
            text = f"td.{form}({turns}, lambda {given}: ({body},), ({', '.join(init)},))"
        else:
            count = f"s[{len(init)}]"
            test = f"(td.the({count}) < {turns}) & (td.the(td.sum({self.pick(all_)})) % 7 != 2)"
            start = f"{', '.join(init)}, td.unit(0)"
            text = f"td.while_loop(lambda s: {test}, lambda s: ({body}, {count} + 1), ({start}))"
        return self.line(f"{text}[{which}]")

    def last_line(self):
        """A transcendental function of the last floats: within ulps, not exact."""
        name = self.choose(lambda v: kind_of(v) == "f")
        if name is None:
            return None
        function = self.pick(("sin", "exp", "tanh", "sqrt"))
        return self.line(f"td.{function}(td.abs({name}) * 0.0625)")


LINES = (
    "map_line",
    "map_line",
    "generate_line",
    "operator_line",
    "slice_line",
    "move_line",
    "fold_line",
    "segments_line",
    "stencil_line",
    "backpermute_line",
    "permute_line",
    "control_line",
    "compute_line",
    "loop_line",
    "loop_line",
)


@st.composite
def programs(draw):
    """(inputs with their layouts, lines, names of the exact results, name of the rounded one,
    values, how often it is called as a compiled function)."""
    writer = Writer(draw)
    writer.model["np"] = np
    for _ in range(draw(st.integers(1, 3))):
        writer.new_input()
    for _ in range(draw(st.integers(2, 7))):
        getattr(writer, draw(st.sampled_from(LINES)))()
    exact = [name for name, _ in writer.lines][-3:]
    rounded = writer.last_line() if draw(st.integers(0, 2)) == 0 else None
    calls = draw(st.sampled_from((0, 1, 4)))
    return writer.inputs, writer.lines, exact, rounded, writer.arrays, calls


def run_program(program, backend):
    inputs, lines, exact, rounded, values, calls = program
    names = exact + ([rounded] if rounded else [])
    text = [f"{name} = {value!r}  # {layout}" for name, (value, layout) in inputs.items()]
    text += [f"{name} = {line}" for name, line in lines]
    note("\n".join([*text, f"return {', '.join(names)}  # {calls} calls"]))
    given = {}
    for name, (value, layout) in inputs.items():
        given[name] = given[layout] if layout in given else laid_out(value, layout)

    def traced(*arrays):
        scope = {"td": treadle, "np": np} | dict(zip(inputs, arrays, strict=True))
        for name, line in lines:
            scope[name] = eval(line, scope)
        return {name: scope[name] for name in names}

    def check(got):
        for name in names:
            assert_same(got[name], values[name], ulps=4 if name == rounded else 0, label=name)

    if calls:
        compiled = treadle.jit(traced, backend=backend)
        results = [compiled(*given.values()) for _ in range(calls)]
    else:
        used = traced(*(treadle.use(v) for v in given.values()))
        results = [treadle.run(used, backend=backend)]
    for got in results:
        check(got)
    for name, (value, _) in inputs.items():
        assert (given[name] == value).all(), f"{name}, an argument, has changed"
    arrays = [*given.values(), *(r for got in results for r in got.values())]
    for k in range(len(inputs), len(arrays)):
        assert not any(np.may_share_memory(arrays[k], a) for a in arrays[:k]), "memory is shared"


@settings(max_examples=60, derandomize=True, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(program=programs())
def test_random_programs(backend, program):
    run_program(program, backend)


@pytest.mark.long
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs())
def test_many_random_programs(backend, program):
    run_program(program, backend)


def test_the_model_knows_its_boundaries():
    assert [boundary_index("mirror", k, 3) for k in range(-3, 6)] == [1, 2, 1, 0, 1, 2, 1, 0, 1]
    assert [boundary_index("symmetric", k, 3) for k in range(-3, 6)] == [2, 1, 0, 0, 1, 2, 2, 1, 0]
