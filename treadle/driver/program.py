"""`Program`: a traced Python function, compiled for a backend, and its explanation.

Modules that calls do not need (explanations, files, tuning) are imported on demand.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.backend.registry import load as load_backend, offered, require_name
from treadle.backend.runtime.choosing import first_choice
from treadle.dsl import errors, passes
from treadle.dsl.annotations import Argument, ScheduleLike
from treadle.dsl.autodiff.custom import without_rules
from treadle.dsl.autodiff.loops import with_stored_states
from treadle.dsl.expr import Needed, Param
from treadle.dsl.frontend.sources import IN_PARTS
from treadle.dsl.frontend.suggestions import PROGRAM
from treadle.dsl.frontend.trees import Tree
from treadle.dsl.graph import Input, Leaf, topological
from treadle.dsl.graphs.inputs import inputs_of
from treadle.dsl.graphs.printer import show_graph
from treadle.dsl.graphs.relations import without_tests
from treadle.dsl.passes.associative import probe_associativity
from treadle.dsl.process.collection import collected_rarely
from treadle.dsl.process.configuration import Settings
from treadle.dsl.process.locks import cached
from treadle.dsl.program import TracedProgram
from treadle.dsl.target import target_of
from treadle.dsl.text import printable
from treadle.dsl.types import LEAF
from treadle.skeletons.schedules.layers import did_you_mean

from .arguments import bind, in_order
from .binding import Value
from .optimised import Optimised

if TYPE_CHECKING:
    from treadle.tuning.memory import Memory
    from treadle.tuning.table import TuningTable


class Program(TracedProgram):
    """A compiled function for one combination of ranks and types: `td.jit(f).lower(*args)`.

    It is called like the function.  `explain()` says what became of it, `graph()` draws it,
    `source()` is its code; `scheduled(…)` has other schedules, `tune(*args)` the fastest;
    `save(path)` stores it for `td.load`.

    `inputs` are the nodes of the arguments, then of captured arrays; `params` the run-time numbers;
    `source_roots` the graph as written, `roots` the graph after the passes.  What runs may be an
    equal graph from disk; `roots` and `history` have the passes run.

    >>> import numpy as np, treadle as td
    >>> program = td.jit(lambda a: a + 1).lower(np.arange(3))
    >>> program(np.arange(3))
    array([1, 2, 3])
    """

    @collected_rarely
    def __init__(
        self,
        roots: Sequence[Leaf],
        tree: Tree,
        settings: Settings,
        backend: str,
        arguments: Sequence[Input] = (),
        params: Sequence[Param] = (),
        name: str = "program",
        overrides: dict[str, Any] | None = None,
        devices: tuple[int, ...] | None = None,
    ) -> None:
        self.devices, self.stays = devices, False
        self.tree, self.settings, self.backend, self.name = tree, settings, backend, name
        self.overrides = dict(overrides or {})
        roots = without_rules(roots)
        _check_names(roots, self.overrides)
        roots = probe_associativity(roots) if settings.check else without_tests(roots)
        self.source_roots = passes.reschedule(roots, self.overrides)
        _check_hints(self.source_roots)
        self.params = tuple(params)
        self.source_inputs = inputs_of(self.source_roots, arguments, self.params)
        self.source_arguments = tuple(arguments)
        #: What is found in the data in each call: more parameters, after those of the user's.
        self.found: Sequence[Needed] = [
            e for e in _needed(self.source_roots) if e not in self.params
        ]
        numbers, parts = (*self.params, *self.found), devices is not None
        self.optimised = Optimised(
            self.source_roots, self.source_inputs, numbers, settings, backend, parts
        )
        self.names: Sequence[str] = ()
        self.example_shapes: tuple[tuple[int, ...], ...] | None = None
        self.example_numbers: tuple[Any, ...] = ()  # in order of `params`; empty if unknown
        self.example_chunks: tuple[Any, ...] = ()
        self.tuning: Any = None
        #: The program under which timings are stored, if not this one.
        self.measured_as: TracedProgram | None = None
        self.tuned_products = _tuned_products(self)
        self._executable: Any = None
        self._same: Program | None = None  # the program whose executable is shared

    if not TYPE_CHECKING:  # a misspelled attribute is an error there

        def __getattr__(self, name: str) -> object:
            instead = PROGRAM.get(name)
            if instead is not None:
                raise errors.no_attribute(f"a program has no {name!r}: {instead}.", name)
            raise AttributeError(f"'Program' object has no attribute {name!r}")

    # --- the optimised graph, for whoever looks at it ---
    @property
    def history(self) -> passes.History:
        """The graph after every pass, and the passes' decisions."""
        return self.optimised.history

    if TYPE_CHECKING:
        roots: Sequence[Leaf]
        inputs: Sequence[Input]
        arguments: Sequence[Input]
    else:

        @cached
        def roots(self):
            return self.history.roots

        @cached
        def inputs(self):
            return self.optimised.inputs

        @cached
        def arguments(self):
            return self.inputs[: len(self.source_arguments)]

    # --- running ---
    @property
    def executable(self) -> Any:
        """The compiled code, made at the first use."""
        if self._same is not None:
            return self._same.executable
        if self._executable is None:
            # From a copy: a reference cycle would keep both, and all data, alive until the garbage
            # collector runs.
            made = copy.copy(self)
            made.roots, made.inputs = self.optimised.runs
            made.params, made.found = (*self.params, *self.found), ()
            made.arguments = made.inputs[: len(self.source_arguments)]
            self._executable = load_backend(self.backend).executable(made)
        return self._executable

    @property
    def _is_made(self) -> bool:
        return (self._same or self)._executable is not None

    def execute(
        self, data: Sequence[Any], params: Sequence[Any] = (), as_arrays: bool = False
    ) -> Any:
        """Run on the data of the arguments; captured arrays are read by reference.  The results are
        NumPy's or of the backend's library, or `as_arrays` treadle's Arrays."""
        if self.tuned_products is not None:
            program = self.tuned_products.on([d.shape for d in data])
            return program.execute(data, params, as_arrays)
        try:
            given = self._inputs_of(data)
            params = self.numbers(given, params)
            if self._is_made:
                flat = self.executable(given, params)
            else:
                make = collected_rarely(lambda: self.executable(given, params))
                flat = make()
            return self.tree.arrays(flat) if as_arrays else self.tree.build(flat)
        except KeyboardInterrupt as stopped:
            raise stopped.with_traceback(None) from None
        except MemoryError as error:
            if isinstance(error, errors.TreadleError):
                raise with_stored_states(error, self.source_roots) from None
            raise errors.DeviceOutOfMemory(
                f"'{self.name}' ran out of memory on {self.backend}: "
                f"{str(error) or 'there is no memory left'}.",
                hint="Use smaller arrays, or compute in parts.",
            ) from None

    def replay(
        self,
        args: Sequence[Any],
        data: Sequence[Any],
        params: Sequence[Any],
        as_arrays: bool = False,
    ) -> Callable[..., Any] | None:
        """After a call: a function that replays calls like it, if the backend supports that; it
        returns None for other calls.  `args` are plain arrays (NumPy's, or of the backend) and
        Python numbers; `data` and `params` are the same, separated."""
        if self.tuned_products is not None:  # other extents may select another program
            return None
        if self._are_gathered(args):
            return None
        found: Callable[..., Any] | None
        given = self._inputs_of(data)
        own = self.numbers(given, ())
        found = self.executable.replay([*args, *own], given, [*params, *own])
        if found is not None and own:
            found = self._finding(found, args, data)
        if found is None or (self.tree.description == ("array", LEAF) and not as_arrays):
            return found
        again, single = found, len(self.source_roots) == 1
        build = self.tree.arrays if as_arrays else self.tree.build

        def replay(*args: Any) -> Any:
            flat = again(*args)
            return flat if flat is None else build((flat,) if single else flat)

        return replay

    def _finding(self, replay: Callable[..., Value], args: Sequence[object],
                 data: Sequence[object]) -> Callable[..., Value]:  # fmt: skip
        """A replay function that is given what is found in the data (`found`) after the arguments
        of a call, which are like `args` and contain `data`."""
        given = dict(zip(self.source_arguments, data, strict=True))
        places = [[a is given[e.node] for a in args].index(True) if e.node in given else None
                  for e in self.found]  # fmt: skip
        of = [(e.value, k, e.node.source) for e, k in zip(self.found, places, strict=True)]

        def again(*args: object) -> Value:
            numbers = []
            for find, k, held in of:
                data = held if k is None else args[k]
                if not isinstance(data, np.ndarray):
                    return None
                numbers.append(find(data))
            return replay(*args, *numbers)

        return again

    def numbers(self, given: Sequence[object], params: Sequence[object]) -> Sequence[object]:
        """The numbers of a run on these inputs: of `params`, then what is found in the data."""
        if not self.found:
            return params
        at = dict(zip(self.source_inputs, given, strict=True))
        return [*params, *(e.value(np.asarray(at[e.node])) for e in self.found)]

    def _inputs_of(self, data: Sequence[Any]) -> list[Any]:
        captured = self.source_inputs[len(self.source_arguments) :]
        arrays = [*data, *(node.source for node in captured)]
        if self._are_gathered(arrays):
            whole = (lambda d: d.gather()) if target_of(self.backend).several else np.asarray
            return [whole(d) if type(d) in IN_PARTS else d for d in arrays]
        return arrays

    def _are_gathered(self, arrays: Sequence[object]) -> bool:
        """Whether the program needs whole arrays, and gets parts of some."""
        in_parts = self.devices is None and IN_PARTS
        return bool(in_parts) and any(type(a) in IN_PARTS for a in arrays)

    @errors.user_facing
    def __call__(self, *args: Argument, **kwargs: Argument) -> Any:
        """Run on arguments of the traced ranks and types."""
        if kwargs:
            args = in_order(self.names, args, kwargs)
        data, params = bind(self, args)
        return self.execute(data, params)

    def offered(self, what: str) -> Any:
        """The attribute `what` of the backend's module; None if there is none."""
        return offered(self.backend, what)

    def measured(self) -> TuningTable | None:
        """The tuning results for the example extents on this device."""
        from treadle.tuning.report import table_of

        return table_of(self)

    def memory(self) -> Memory:
        """The tuning results for the extents of any call."""
        from treadle.tuning.memory import Memory

        return Memory(self)

    def placed(self, data: Sequence[Any]) -> list[Any]:
        """The data of the arguments, moved to the backend's device: the GPU for `cuda`."""
        place = self.offered("placed")
        return list(data) if place is None else list(place(data))

    def machine(self) -> list[str]:
        """A description of the backend's device, the GPU; empty if it is the processor."""
        machine = self.offered("machine")
        return [] if machine is None else list(machine())

    def lowering(self, node: Any) -> Any:
        """The context for lowering a kernel; None if it is not lowered: the backend interprets the
        graph, or a library computes the node."""
        found = self.offered("lowering")
        return None if found is None else found(self, node)

    def first_choice(self, node: Any) -> Any:
        """The schedule chosen for a kernel whose schedule is open, on the examples; None:
        default."""
        return first_choice(self, node)

    def product_ways(self, node: Any, size: tuple[int, int, int]) -> list[Any]:
        """Ways (`ProductWay`) permitted for computing an (m, k) by (k, n) product."""
        found = self.offered("product_ways")
        return [] if found is None else list(found(node, size))

    def wait(self) -> None:
        """Wait until earlier calls are done: with arrays of a GPU, a call may return before.

        Result: None.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> program.wait()
        """
        wait = self.offered("wait")
        if wait is not None:
            wait()

    # --- inspection ---
    def explained_for(
        self,
        shapes: tuple[tuple[int, ...], ...],
        numbers: tuple[Any, ...] = (),
        chunks: tuple[Any, ...] = (),
    ) -> Program:
        """This program, explained and simulated for these extents and scalar arguments."""
        wanted = shapes, numbers, chunks
        if wanted == (self.example_shapes, self.example_numbers, self.example_chunks):
            return self
        other = copy.copy(self)
        other.example_chunks = chunks
        other.example_shapes, other.example_numbers, other._same = shapes, numbers, self
        return other

    @property
    def kernels(self) -> list[Any]:
        """The kernels in launch order (nodes of the optimised graph)."""
        return [n for n in topological(self.roots) if not isinstance(n, Input)]

    @errors.user_facing
    def explain(self, backend: str | None = None) -> str:
        """Describe every kernel: what was fused into it, what was not and why, bytes, operations.

        Parameters
            backend: another backend than the program's; "cuda" without a GPU means an H200.

        Result: a text; in a notebook with parts that fold.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> program.explain().splitlines()[0]
        '<lambda> on native: 2 operations written, 1 kernel launched'

        See also `source`, `graph`.
        """
        from .explain import explain
        from .shown import Explanation

        require_name(backend)
        program = self if backend in (None, self.backend) else self._on(str(backend))
        return Explanation(explain(program._here()))

    def _here(self) -> Program:
        """The program that runs on the examples: products under `Tuned()` depend on extents."""
        if self.tuned_products is None or self.example_shapes is None:
            return self
        made = self.tuned_products.on(self.example_shapes)
        made.example_shapes, made.example_numbers = self.example_shapes, self.example_numbers
        return made  # type: ignore[no-any-return]

    def _on(self, backend: str) -> Program:
        """The same program for another backend, for inspection."""
        other = Program(
            self.source_roots,
            self.tree,
            self.settings,
            backend,
            self.source_arguments,
            self.params,
            self.name,
            devices=self.devices if backend == self.backend else None,
        )
        other.example_shapes, other.example_numbers = self.example_shapes, self.example_numbers
        other.example_chunks = self.example_chunks
        other.names = self.names
        return other

    @errors.user_facing
    def source(self, backend: str | None = None, arch: str | None = None) -> str:
        """The code of each kernel: CUDA C++ on `cuda`, LLVM IR on `native`.

        Parameters
            backend: another backend than the program's; "cuda" needs neither a GPU nor CUDA.
            arch: the GPU for which "cuda" prints, such as "sm_90a" (the default without a GPU).

        Result: a text; in a notebook highlighted.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> "__global__" in program.source("cuda")
        True

        See also `explain`, `graph`.
        """
        from .shown import Source

        if backend is not None and backend != self.backend:
            return self._on(backend).source(arch=arch)
        return Source(self.offered("source")(self._here(), arch))

    def graph(self) -> str:
        """The graph of the kernels in Graphviz's language, which a notebook shows as a picture.

        Result: a text; its `_repr_svg_()` is the picture, as SVG.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> program.graph()._repr_svg_()[:4]
        '<svg'

        See also `explain`, `source`.
        """
        from .shown import graphviz

        return graphviz(self)

    @errors.user_facing
    def scheduled(self, *unnamed: ScheduleLike, **schedules: ScheduleLike) -> Program:
        """The same program, with its operations computed in other orders.

        Parameters
            *unnamed: refused: a schedule belongs to an operation.
            **schedules: a schedule or a layer for each operation, by the name that it was given
                (`name=`), or by its number in `explain()`: `scheduled(**{"#3": Row()})`.

        Result: a program; this one is unchanged.

        Errors: `ScheduleError` for an operation that does not exist, or a schedule that does not
            fit it.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> program.scheduled(total=td.schedule.Row())(np.ones(4)).item()
        4.0

        See also `tune`.
        """
        if unnamed:
            raise unnamed_schedules("program", unnamed, operation_names([self.source_roots]))
        made = Program(
            self.source_roots,
            self.tree,
            self.settings,
            self.backend,
            self.source_arguments,
            self.params,
            self.name,
            schedules,
            self.devices,
        )
        made.overrides = {**self.overrides, **schedules}
        made.names = self.names
        made.example_shapes, made.example_numbers = self.example_shapes, self.example_numbers
        return made

    def __str__(self) -> str:
        return printable(show_graph(self.roots))

    def __repr__(self) -> str:
        written = sum(not isinstance(n, Input) for n in topological(self.source_roots))
        operations = f"{written} operation{'s' * (written != 1)}"
        return (f"<Program {self.name} on {self.backend}: {operations}, {len(self.kernels)} after "
                "fusion; program.explain() tells more>")  # fmt: skip

    def _repr_html_(self) -> str:
        """What it is, above its explanation, which notebooks show folded."""
        from .shown import Explanation, folded

        return folded(repr(self), Explanation(self.explain())._repr_html_())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles contain the same text as files."""
        from treadle.backend.runtime import storage

        return unpacked, (storage.packed(self),)

    def __copy__(self) -> Program:
        """A shallow copy over the same graph, without serialisation."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    @errors.user_facing
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file that `td.load` reads, on this machine or another.

        Parameters
            path: where; a file that is there is replaced.

        Result: None.

        Errors: `StorageError` if the file cannot be written, or if the program calls Python
            functions.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> program.save("squares.treadle")
        >>> td.load("squares.treadle")(np.arange(4.0)).item()
        14.0
        """
        from treadle.backend.runtime import storage

        storage.save(self, path)

    @errors.user_facing
    def tune(self, *args: Argument, budget: float = 60.0, keep: int | None = None,
             tolerance: float | None = None, progress: bool = True) -> Program:  # fmt: skip
        """The program with the schedules that were measured to be the fastest.

        Candidates are those that the performance model ranks best; each is timed, and its result
        compared with that of the program as it is.  Products are computed in the fastest of the
        permitted ways.  Winners are stored on disk, for extents of the same power of two, where
        `td.schedule.Tuned()` finds them.  Ctrl-C ends it with the best so far.

        Parameters
            *args: arguments like those of the calls that are to be fast.
            budget: for how many seconds, about; default 60.
            keep, tolerance: use few different schedules: those that stay within `tolerance` of the
                `keep` best of each operation; default None: the fastest of each.
            progress: whether a bar is shown; default True.

        Result: a program, whose `tuning` is the table of all timings; this one is unchanged.

        >>> import numpy as np, treadle as td
        >>> squares = td.jit(lambda a: td.sum(a * a, name="total"), backend="native")
        >>> program = squares.lower(np.ones(4))
        >>> tuned = program.tune(np.ones(4), budget=0.1, progress=False)
        >>> tuned(np.ones(4)).item()
        4.0

        See also `scheduled`.
        """
        from treadle.tuning.tune import tune

        tuned = tune(self, args, budget=budget, keep=keep, tolerance=tolerance, progress=progress)
        assert isinstance(tuned, Program)
        return tuned


def _check_names(roots: Sequence[Leaf], schedules: dict[str, Any]) -> None:
    """Raise an error for schedules of operations that do not exist."""
    if not schedules:
        return
    written = [n for n in topological(roots) if not isinstance(n, Input)]
    names = {n.label.name for n in written if n.label.name}
    numbers = {f"#{k}" for k in range(1, len(written) + 1)}
    for wanted in schedules:
        if wanted not in names | numbers:
            near = did_you_mean(wanted, names)
            known = ", ".join(sorted(names)) or "none"
            advice = (
                f"Named operations: {known}.  Name one with name=… where it is built, "
                "td.add(a, b, name=…) for a + b."
            )
            raise errors.TracingError(
                f"the program has no operation named {wanted!r}.",
                hint=advice if near is None else f"{near}\n{advice}",
            )


def _needed(roots: Sequence[Leaf]) -> list[Needed]:
    """What the checks of a graph compare with extents, once each."""
    checks = [c for n in topological(roots) for c in n.checks]
    return list(dict.fromkeys(c.right for c in checks if isinstance(c.right, Needed)))


def _tuned_products(program: Program) -> Any:
    """The dispatcher for a program with products under `Tuned()`; None without such products."""
    if all(isinstance(n, Input) or n.label.schedule is None
           for n in topological(program.source_roots)):  # fmt: skip
        return None

    from treadle.tuning.memory import TunedProducts

    return TunedProducts.of(program)


def _check_hints(roots: Sequence[Leaf]) -> None:
    """Raise an error for schedules that refer to arrays that do not exist."""
    if any(not isinstance(n, Input) and n.label.schedule is not None for n in topological(roots)):
        from treadle.skeletons.lower.caching import require_arrays

        require_arrays(roots)


def operation_names(programs: Iterable[Sequence[Leaf]]) -> list[str]:
    """The names given to operations of these programs, each once."""
    found = {n.label.name for roots in programs for n in topological(roots)
             if not isinstance(n, Input) and n.label.name}  # fmt: skip
    return sorted(found)


def unnamed_schedules(what: str, given: Sequence[Any], names: Sequence[str]) -> errors.TracingError:
    """The error for `.scheduled(Row())`, without an operation; `names`: the existing names."""
    name, schedule = names[0] if names else "name", given[0]
    if len(given) == 2 and given[0] in names:  # as in scheduled("blur", Row())
        name, schedule = given
    advice = f"Named operations: {', '.join(names)}." if names else (
        "An operation gets its name where it is built, with name=…."
    )  # fmt: skip
    return errors.TracingError(
        f"scheduled takes schedules by the names of operations, got {schedule!r} without one.",
        hint=f"Write {what}.scheduled({name}={schedule!r}).  {advice}",
    )


@errors.user_facing
def load(path: str | os.PathLike[str]) -> Program:
    """Load a program from a file written by `Program.save`.

    Nothing is imported: if the program has a user-defined order or class of results, import its
    module first.  `StorageError` otherwise, and for a damaged file or another format version.

    Parameters
        path: a file.

    Result: a `Program`.

    >>> import treadle as td
    >>> callable(td.load)
    True

    See also `run`, `jit`, `config`, `precision`.
    """
    from treadle.backend.runtime import storage

    name, text = storage.content(path)
    return storage.unpacked(text, Program, name)


def unpacked(text: str) -> Program:
    """Load a program from a pickle."""
    from treadle.backend.runtime import storage

    return storage.unpacked(text, Program)
