"""Serialise the array graph as plain data, and read it back: for saved programs and cache keys.

One table, in topological order, of expressions and nodes that refer to each other by number:
`["apply", "add", [3, 4], "float64", false]`.  Everything is a list, a string, a number or null.
Writing and reading are iterative and linear.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from .. import errors as errors_module, expr as ex, node as node_module
from ..errors import Location, StorageError, StoredLocation
from ..expr import Expr
from ..frontend.trees import Tree, array_tree, joined_tree
from ..graph import Check, Combine, Input, Label, Leaf, Node, Output, topological
from ..libraries.base import LibraryOperation, builtin, is_builtin
from ..node import NODES
from ..operations.algebra.products import MatmulOptions
from ..operations.stencils import coordinate
from ..primitives import KERNEL, TABLE
from ..schedule import Schedule
from ..types import ALL_TYPES, LEAF, ScalarType, Structure

#: JSON data: strings, numbers, None, and lists and dictionaries of these.
Data: TypeAlias = Any

TYPES = {t.name: t for t in ALL_TYPES}
KINDS = ("use", "argument", "state", "counter")


class Encoder:
    """Fills `table`; `numbers` gives the index of each expression and node in it.

    Without `full`, the table contains only what determines the meaning: no names of inputs and
    variables, no source locations.
    """

    def __init__(self, params: Sequence[ex.Param], full: bool) -> None:
        self.table: list[Any] = []
        self.numbers: dict[Expr | Node, int] = {}
        self.params = {p: k for k, p in enumerate(params)}
        self.full = full

    def graph(self, roots: Sequence[Leaf], inputs: Sequence[Input] = ()) -> list[Any]:
        """Add `roots` and everything they depend on to the table; return their references."""
        for source in inputs:
            self._input(source)
        for node in topological(roots):
            if isinstance(node, Input):
                self._input(node)
            else:
                self._node(node)
        return [self.value(leaf) for leaf in roots]

    def _add(self, key: Expr | Node, entry: Any) -> int:
        self.numbers[key] = len(self.table)
        self.table.append(entry)
        return self.numbers[key]

    # --- nodes ---
    def _input(self, node: Input) -> int:
        found = self.numbers.get(node)
        if found is not None:
            return found
        extents = [self._extent(e, node, axis) for axis, e in enumerate(node.shape)]
        name = [node.name, self._place(node.where)] if self.full else []
        return self._add(node, ["input", node.type.name, extents, node.kind, *name])

    def _extent(self, extent: Expr, of: Input, axis: int) -> int | list[int] | None:
        """The extent of an axis of an input: None for its own, another axis of the same input, or
        an expression over the extents of other inputs."""
        if isinstance(extent, ex.Extent) and extent.node is of:
            return None if extent.axis == axis else [extent.axis]
        for e in ex.walk((extent,)):
            if e not in self.numbers:
                self._expression(e, of)
        return self.numbers[extent]

    def _node(self, node: Node) -> None:
        for state in getattr(node, "bound", ()):  # even if the body does not use it
            self._input(state)
        fields = [getattr(node, name) for name in node.fields]
        for e in ex.walk([e for f in (fields, node.checks) for e in _expressions(f)]):
            if e not in self.numbers:
                self._expression(e, node)
        entry = ["node", type(node).__name__, [self.value(f, node) for f in fields],
                 self._label(node.label), [self._check(c) for c in node.checks]]  # fmt: skip
        self._add(node, [*entry, self._place(node.where)] if self.full else entry)

    def _label(self, label: Label) -> list[Any]:
        schedule = None if label.schedule is None else label.schedule.to_dict()
        return [label.operation, label.name, schedule, label.deterministic]

    def _check(self, check: Check) -> list[Any]:
        meaning = [self.numbers[check.left], self.numbers[check.right], check.relation, check.error]
        text = [check.message, check.hint, self._place(check.where)] if self.full else []
        return [*meaning, *text]

    def _place(self, where: Location | None) -> Data:
        return None if where is None else [where.file, where.function, where.line]

    def value(self, value: Any, node: Node | None = None) -> Any:
        """A field of a node, tagged by its kind."""
        if isinstance(value, Expr):
            return ["e", self.numbers[value]]
        if isinstance(value, Leaf):
            return ["leaf", self.numbers[value.node], value.component]
        if isinstance(value, Output):
            return ["output", [self.numbers[e] for e in value.shape], value.type.name]
        if isinstance(value, Node):
            return ["n", self.numbers[value]]
        if isinstance(value, Combine):
            return ["combine", *([self.numbers[e] for e in part] for part in (
                value.left, value.right, value.results))]  # fmt: skip
        if isinstance(value, MatmulOptions):
            own = value.algorithm
            if isinstance(own, str):
                return ["matmul", asdict(value)]
            tables = [table.tolist() for table in (own.u, own.v, own.w)]
            algorithm = [own.name, own.m, own.k, own.n, *tables]
            return ["matmul", {**asdict(replace(value, algorithm="")), "algorithm": algorithm}]
        if isinstance(value, LibraryOperation):
            if not is_builtin(value):
                what = f"the library operation {value.name!r}, a Python function"
                raise _refused(node, what, "Store a program for each side, and call it between.")
            return ["library", value.name, list(value.parameters)]
        if isinstance(value, tuple):
            return ["tuple", *(self.value(v, node) for v in value)]
        if value is None or isinstance(value, bool | int | str):
            return value
        raise _refused(node, f"a {type(value).__name__}", "Trace it without.")

    # --- expressions ---
    def _expression(self, e: Expr, node: Node) -> None:
        n = self.numbers
        entry: list[Any]
        match e:
            case ex.Const():
                array = np.asarray(e.value, e.type.numpy)
                entry = ["const", e.type.name, e.weak, array.tobytes().hex()]
            case ex.Index():
                entry = ["index", e.axis]
            case ex.Var():
                entry = self._variable(e)
            case ex.Needed() if e not in self.params:
                entry = ["needed", self._input(e.node), e.from_end]
            case ex.Param():
                entry = ["param", self.params.setdefault(e, len(self.params)), e.type.name, e.weak]
            case ex.Extent():
                entry = ["extent", self._input(e.node), e.axis]  # type: ignore[arg-type]
            case ex.Apply():
                entry = ["apply", e.op.name, [n[a] for a in e.args], e.type.name, e.weak]
            case ex.Read():
                entry = ["read", n[e.node], e.component, [n[a] for a in e.args], e.boundary,
                         [n[s] for s in e.scoped], self._bound(e)]  # fmt: skip
            case ex.Cond():
                entry = ["cond", n[e.args[0]], [n[s] for s in e.then], [n[s] for s in e.other]]
            case ex.While():
                entry = ["while", [n[a] for a in e.args], self._bound(e), n[e.scoped[0]],
                         [n[s] for s in e.scoped[1:]]]  # fmt: skip
            case ex.Loop():
                entry = ["loop", n[e.count], [n[a] for a in e.args[1:]], self._bound(e),
                         [n[s] for s in e.scoped]]  # fmt: skip
            case ex.Proj():
                entry = ["proj", n[e.args[0]], e.which]
            case ex.Foreign():
                raise _refused(node, f"the foreign function {e.function.name!r}, compiled Python",
                               "Write it with treadle's own operations.")  # fmt: skip
            case _:
                raise _refused(node, f"a {type(e).__name__}", "This is a bug in treadle.")
        self._add(e, entry)

    def _variable(self, v: ex.Var) -> list[Any]:
        return [
            "var",
            v.type.name,
            *([v.name, canonical(v.name, v.type) is v] if self.full else []),
        ]

    def _bound(self, e: Expr) -> list[int]:
        """The numbers of a binder's variables, including those that its body does not use."""
        for v in e.vars:
            if v not in self.numbers:
                self._add(v, self._variable(v))
        return [self.numbers[v] for v in e.vars]


def _expressions(value: Any) -> list[Expr]:
    if isinstance(value, Expr):
        return [value]
    if isinstance(value, Leaf | Node):
        return []
    if isinstance(value, Output):
        return list(value.shape)
    if isinstance(value, Combine):
        return [*value.left, *value.right, *value.results]
    if isinstance(value, Check):
        return [value.left, value.right]
    if isinstance(value, tuple | list):
        return [e for v in value for e in _expressions(v)]
    return []


def _refused(node: Node | None, what: str, hint: str) -> StorageError:
    of = f"'{node.label}' has " if node is not None else "it has "
    return StorageError(f"the program cannot be stored: {of}{what}.", hint=hint,
                        where=node.where if node is not None else None)  # fmt: skip


def canonical(name: str, type_: ScalarType) -> ex.Var | None:
    """The variable of that name that equal graphs share, if the name is canonical."""
    kind = name.rstrip("0123456789")
    digits = name[len(kind) :]
    if kind not in ("result", "left", "right", "outside") or not 0 < len(digits) <= 6:
        return None
    k = int(digits)
    if kind == "outside":
        return coordinate(k)
    if kind == "result":
        return node_module._result_variable(k, type_)
    return node_module._combine_variable(kind, k, type_)


# --- reading ---------------------------------------------------------------------------------


class Decoder:
    """Rebuilds the objects of a table.  A forward reference, a reference to the wrong kind, or an
    impossible axis, component or location raises ValueError.  `verify` checks consistency."""

    def __init__(self, params: Sequence[ex.Param], schedule: Callable[[Any], Schedule],
                 algorithm: Callable[..., Any]) -> None:  # fmt: skip
        self.made: list[Expr | Node] = []
        self.params = params
        #: Constructors of a schedule from its dictionary, and of an algorithm from its tables.
        self.schedule, self.algorithm = schedule, algorithm

    def _label(self, operation: str, name: str | None, schedule: Any, deterministic: bool) -> Label:
        return Label(_of(operation, str), _of(name, str | None),
                     None if schedule is None else self.schedule(schedule),
                     _of(deterministic, bool))  # fmt: skip

    def _place(self, where: Data) -> Location | None:
        return location_of(where)

    def table(self, entries: Sequence[Data]) -> None:
        readers = self._readers()
        for kind, *rest in entries:
            self.made.append(readers[kind](*rest))

    def _readers(self) -> dict[str, Callable[..., Expr | Node]]:
        return {
            "input": self._input, "node": self._node, "const": self._const,
            "index": lambda axis: ex.Index(_index(axis)), "extent": self._extent,
            "needed": lambda n, from_end: ex.Needed(self.node(n, Input), _of(from_end, bool)),
            "var": self._var, "param": self._param, "apply": self._apply, "read": self._read,
            "cond": lambda p, a, b: ex.Cond(self.expr(p), self.exprs(a), self.exprs(b)),
            "while": lambda i, v, p, b: ex.While(self.exprs(i), self.variables(v), self.expr(p),
                                                 self.exprs(b)),
            "loop": lambda n, i, v, b: ex.Loop(self.expr(n), self.exprs(i), self.variables(v),
                                               self.exprs(b)),
            "proj": lambda e, k: ex.Proj(self.expr(e), _index(k)),
        }  # fmt: skip

    # --- references ---
    def expr(self, n: int) -> Expr:
        found: Expr = _of(self.made[_index(n)], Expr)
        return found

    def exprs(self, numbers: Sequence[int]) -> tuple[Expr, ...]:
        return tuple(self.expr(n) for n in numbers)

    def variables(self, numbers: Sequence[int]) -> tuple[ex.Var, ...]:
        return tuple(_of(self.expr(n), ex.Var) for n in numbers)

    def node(self, n: int, kind: type[Any] = Node) -> Any:
        return _of(self.made[_index(n)], kind)

    def leaf(self, value: Any) -> Leaf:
        found: Leaf = _of(self.value(value), Leaf)
        return found

    # --- entries ---
    def _input(self, type_: str, extents: list[int | list[int] | None], kind: str, name: str,
               where: Data) -> Input:  # fmt: skip
        if kind not in KINDS:
            raise ValueError(f"an input of kind {kind!r}")
        made = Input(
            str(name), TYPES[type_], (False,) * len(extents), kind, where=self._place(where)
        )
        shape = self._shape(made, extents)
        if not made.bound and not all(
            isinstance(e, ex.Extent) or e is ex.constant(1) for e in shape
        ):
            raise ValueError(f"the shape of {name!r}")
        return made.of_shape(shape)

    def _shape(self, of: Input, extents: list[int | list[int] | None]) -> tuple[Expr, ...]:
        return tuple(
            ex.Extent(of, axis) if n is None else self._extent_of(of, n[0]) if isinstance(n, list)
            else self.expr(n) for axis, n in enumerate(extents)
        )  # fmt: skip

    def _extent(self, n: int, axis: int) -> ex.Extent:
        return self._extent_of(self.node(n, Input), axis)

    def _extent_of(self, node: Input, axis: int) -> ex.Extent:
        if _index(axis) >= len(node.shape):
            raise ValueError(f"axis {axis} of {node.name!r}, which has rank {len(node.shape)}")
        return ex.Extent(node, axis)

    def _node(self, kind: str, fields: list[Any], label: list[Any], checks: list[Any],
              where: Data, fused: Sequence[tuple[Data, Data]] = ()) -> Node:  # fmt: skip
        values = [self.value(f) for f in fields]
        made: Node = NODES[kind](
            *values, label=self._label(*label), where=self._place(where),
            checks=tuple(self._check(*c) for c in checks),
            fused=tuple((self._label(*one), self._place(at)) for one, at in fused),
        )  # fmt: skip
        return made

    def _check(self, left: int, right: int, relation: str, error: str, message: str,
               hint: str | None, where: Data) -> Check:  # fmt: skip
        kind = getattr(errors_module, error)
        if relation not in ("==", ">=") or not issubclass(kind, errors_module.TreadleError):
            raise ValueError("an unknown check")
        check = Check(self.expr(left), self.expr(right), _of(message, str), error, relation,
                      _of(hint, str | None), self._place(where))  # fmt: skip
        check.text(0, 0)  # detect a malformed message now
        return check

    def _const(self, type_: str, weak: bool, data: str) -> ex.Const:
        (value,) = np.frombuffer(bytes.fromhex(data), TYPES[type_].numpy)
        return ex.Const(value, TYPES[type_], bool(weak))

    def _var(self, type_: str, name: str, shared: bool) -> ex.Var:
        found = canonical(name, TYPES[type_]) if shared else None
        return found if found is not None else ex.Var(str(name), TYPES[type_])

    def _param(self, k: int, type_: str, weak: bool) -> ex.Param:
        found = self.params[_index(k)]
        if (found.type.name, found.weak) != (type_, weak):
            raise ValueError("a parameter of another type")
        return found

    def _apply(self, op: str, args: list[int], type_: str, weak: bool) -> ex.Apply:
        return ex.Apply(TABLE.get(op) or KERNEL[op], self.exprs(args), TYPES[type_], bool(weak))

    def _read(self, node: int, component: int, args: list[int], boundary: str | None,
              scoped: list[int], variables: list[int]) -> ex.Read:  # fmt: skip
        if boundary not in (None, "clamp", "mirror", "symmetric", "wrap", "constant", "function"):
            raise ValueError(f"a border {boundary!r}")
        return ex.Read(self.node(node), _index(component), self.exprs(args), boundary,
                       self.exprs(scoped), self.variables(variables))  # fmt: skip

    def value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        kind, *rest = value
        if kind == "e":
            return self.expr(*rest)
        if kind == "n":
            return self.node(*rest)
        if kind == "leaf":
            node, component = self.node(rest[0]), _index(rest[1])
            node.outputs[component]
            return Leaf(node, component)
        if kind == "output":
            return Output(self.exprs(rest[0]), TYPES[rest[1]])
        if kind == "combine":
            return Combine(self.variables(rest[0]), self.variables(rest[1]), self.exprs(rest[2]))
        if kind == "matmul":
            options = MatmulOptions(**rest[0])
            if isinstance(options.algorithm, str):
                return options
            return replace(options, algorithm=self.algorithm(*options.algorithm))
        if kind == "library":
            return builtin(rest[0], tuple(rest[1]))
        if kind == "tuple":
            return tuple(self.value(v) for v in rest)
        raise ValueError(f"an unknown field {kind!r}")


def _of(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", kind)
        raise ValueError(f"a {type(value).__name__} in place of a {wanted}")
    return value


def _index(n: Any) -> int:
    if type(n) is not int or n < 0:
        raise ValueError(f"{n!r} is no number of an entry")
    return n


def location_of(where: Data) -> Location | None:
    if where is None:
        return None
    file, function, line = where
    return StoredLocation(_of(file, str), _of(function, str), _index(line))


# --- results ---------------------------------------------------------------------------------


def encode_tree(tree: Tree) -> list[Any]:
    """Encode the nesting of results; classes by import path."""
    kind, *detail = tree.description
    if kind == "array":
        return ["array", _structure(detail[0])]
    children = [encode_tree(t) for t in detail[-1]]
    if kind == "dict":
        if not all(k is None or isinstance(k, bool | int | float | str) for k in detail[0]):
            raise StorageError("the program cannot be stored: a dict of results has keys that are "
                               "neither strings nor numbers.")  # fmt: skip
        return ["dict", list(detail[0]), children]
    if kind == "tuple":
        return ["tuple", class_path(detail[0]), children]
    return [kind, children]


def decode_tree(entry: Any) -> Tree:
    kind, *detail = entry
    if kind == "array":
        return array_tree(_structure_of(detail[0]))
    children = [decode_tree(t) for t in detail[-1]]
    if kind == "dict":
        return joined_tree(children, "dict", tuple(detail[0]))
    if kind == "tuple":
        return joined_tree(children, "tuple", class_at(detail[0]))
    if kind in ("list", "none"):
        return joined_tree(children, kind)
    raise ValueError(f"results of kind {kind!r}")


def _structure(structure: Structure) -> Any:
    if structure.cls is None:
        return None
    return [class_path(structure.cls), [_structure(c) for c in structure.children]]


def _structure_of(entry: Any) -> Structure:
    if entry is None:
        return LEAF
    return Structure(class_at(entry[0]), tuple(_structure_of(c) for c in entry[1]))


def class_path(cls: type) -> str:
    """`module:qualname`; an error unless the class can be imported by it."""
    if cls is tuple:
        return "tuple"
    path = f"{cls.__module__}:{cls.__qualname__}"
    if cls.__module__ == "__main__" or "<locals>" in path:
        raise StorageError(
            f"the program cannot be stored: its results have the class {path}, which another "
            "process could not import.",
            hint=f"{where_to_define(cls)}  Or return plain tuples.",
        )
    return path


def where_to_define(cls: type) -> str:
    """A hint for a class that another process could not import."""
    if "<locals>" in cls.__qualname__:
        return "Define the class at the top level of a module, not in a function."
    return (
        "Define the class in a module of its own, not in the script that runs, and import it in "
        "both: here, and where the file is loaded."
    )


def imported(path: str) -> Any:
    """The object `module:qualname` named by a file, if its module has already been imported.

    A file may name any module, and importing a module executes it, so the user has to decide on
    that. LookupError: the reason why the object is not available.
    """
    module, _, name = path.partition(":")
    found: Any = sys.modules.get(module)
    if found is None:
        raise LookupError(f"the module {module!r} has not been imported here")
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
        if found is None:
            raise LookupError(f"the module {module!r} has no {name}")
    return found


def import_first(path: str) -> str:
    """A hint that makes `imported` succeed."""
    module = path.partition(":")[0]
    return f"If you trust the file, write `import {module}` first: reading a file imports nothing."


def class_at(path: str) -> type:
    """The tuple or dataclass at an import path; other classes are rejected."""
    if path == "tuple":
        return tuple
    try:
        found = imported(path)
    except LookupError as error:
        raise StorageError(
            f"the results of the stored program have the class {path}, and {error.args[0]}.",
            hint=import_first(path),
        ) from None
    if not isinstance(found, type) or not (issubclass(found, tuple) or is_dataclass(found)):
        raise StorageError(f"{path} is neither a named tuple nor a dataclass.")
    return found
