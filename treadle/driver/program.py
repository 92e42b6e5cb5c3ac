"""`Program`: what a Python function became, ready to run on a backend; and its explanation.

What a call does not need, explanations, files and tuning, is imported when it is asked for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from treadle.backend.registry import load as load_backend
from treadle.backend.registry import offered
from treadle.dsl.configuration import Settings
from treadle.dsl.errors import DeviceOutOfMemory, TracingError, user_facing
from treadle.dsl.expr import Param
from treadle.dsl.graph import Input, Leaf, topological
from treadle.dsl.program import TracedProgram
from treadle.dsl.strangers import inputs_of
from treadle.dsl.text import Text, printable
from treadle.dsl.types import LEAF
from treadle.dsl.values import Tree
from treadle.skeletons.schedules.validate import did_you_mean

from .arguments import bind

if TYPE_CHECKING:
    from treadle.tuning.memory import Memory
    from treadle.tuning.table import TuningTable


class Program(TracedProgram):
    """A traced program: inputs, parameters and results, optimised for and compiled by a backend.

    `inputs` are Input nodes (arguments first, then captured arrays); `params` run-time scalars;
    `source_roots` the graph as written, `roots` after the passes, which may have put others in the
    place of the `source_inputs`.
    """

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
    ) -> None:
        from treadle.dsl import passes

        self.tree, self.settings, self.backend, self.name = tree, settings, backend, name
        self.overrides = dict(overrides or {})
        _check_names(roots, self.overrides)
        self.source_roots = passes.reschedule(roots, self.overrides)
        _check_hints(self.source_roots)
        self.params = tuple(params)
        self.source_inputs = inputs_of(self.source_roots, arguments, self.params)
        self.source_arguments = tuple(arguments)
        self.history = passes.run_passes(self.source_roots, settings, backend)
        self.roots = self.history.roots
        self.inputs = self.history.inputs(self.source_inputs)
        self.arguments = self.inputs[: len(self.source_arguments)]
        self.example_shapes: tuple[tuple[int, ...], ...] | None = None
        self.example_numbers: tuple[Any, ...] = ()  # in order of `params`; none known: empty
        self.tuning: Any = None
        #: Under whose name timings are kept, if not ours.
        self.measured_as: TracedProgram | None = None
        self.tuned_products = _tuned_products(self)
        self._executable: Any = None
        self._same: Program | None = None  # whose executable is ours, too
        self._replaying: Callable[..., Any] | None = None

    # --- running ---
    @property
    def executable(self) -> Any:
        if self._same is not None:
            return self._same.executable
        if self._executable is None:
            # Of a copy: the two would keep each other, and all data, until Python looks for cycles.
            self._executable = load_backend(self.backend).executable(copy.copy(self))
        return self._executable

    def execute(self, data: Sequence[Any], params: Sequence[Any] = ()) -> Any:
        """Run on the data of the arguments; captured arrays are read by reference."""
        if self.tuned_products is not None:
            return self.tuned_products.on([d.shape for d in data]).execute(data, params)
        try:
            return self.tree.build(self.executable(self._held(data), params))
        except KeyboardInterrupt as stopped:
            raise stopped.with_traceback(None) from None
        except MemoryError as error:
            if isinstance(error, DeviceOutOfMemory):
                raise
            raise DeviceOutOfMemory(
                f"'{self.name}' ran out of memory on {self.backend}: "
                f"{str(error) or 'there is no memory left'}.",
                hint="Use smaller arrays, or compute in parts.",
            ) from None

    def replay(
        self, args: Sequence[Any], data: Sequence[Any], params: Sequence[Any]
    ) -> Callable[..., Any] | None:
        """After a call: a function that repeats calls like it, if the backend can; its result is
        None for calls that are not.  `args` are plain arrays (NumPy's, or a backend's own) and
        numbers of Python, `data` and `params` the same apart."""
        if self.tuned_products is not None:  # other extents may be another program's
            return None
        found: Callable[..., Any] | None
        found = self.executable.replay(args, self._held(data), params)
        if found is None or self.tree.description == ("array", LEAF):
            return found
        if self._replaying is None:
            again, build, single = found, self.tree.build, len(self.roots) == 1

            def replay(*args: Any) -> Any:
                flat = again(*args)
                return flat if flat is None else build((flat,) if single else flat)

            self._replaying = replay
        return self._replaying

    def _held(self, data: Sequence[Any]) -> list[Any]:
        return [*data, *(node.source for node in self.inputs[len(self.arguments) :])]

    @user_facing
    def __call__(self, *args: Any) -> Any:
        """Run on arguments of the traced ranks and types."""
        data, params = bind(self, args)
        return self.execute(data, params)

    def offered(self, what: str) -> Any:
        """What the module of the backend offers under a name; None where it does not."""
        return offered(self.backend, what)

    def measured(self) -> TuningTable | None:
        """What tuning measured for it on this device at the extents of the examples."""
        from treadle.tuning.report import table_of

        return table_of(self)

    def memory(self) -> Memory:
        """What tuning found for extents that a call brings."""
        from treadle.tuning.memory import Memory

        return Memory(self)

    def placed(self, data: Sequence[Any]) -> list[Any]:
        """The data of the arguments where the backend works on it: on the GPU, for `cuda`."""
        place = self.offered("placed")
        return list(data) if place is None else list(place(data))

    def machine(self) -> list[str]:
        """What the backend runs on, beside this machine's processor: the GPU."""
        machine = self.offered("machine")
        return [] if machine is None else list(machine())

    def lowering(self, node: Any) -> Any:
        """The context in which a kernel is lowered; None where nobody lowers it: the backend
        runs the graph itself, or a library computes it."""
        found = self.offered("lowering")
        return None if found is None else found(self, node)

    def first_choice(self, node: Any) -> Any:
        """The schedule that is chosen for a kernel that leaves it open, on the examples; None for
        its own."""
        from treadle.backend.runtime.choosing import first_choice

        return first_choice(self, node)

    def product_ways(self, node: Any, size: tuple[int, int, int]) -> list[Any]:
        """Ways (`ProductWay`) to compute an (m, k) by (k, n) product that are left open."""
        found = self.offered("product_ways")
        return [] if found is None else list(found(node, size))

    def wait(self) -> None:
        """Return when what was called is done (results on a GPU may still be under way)."""
        wait = self.offered("wait")
        if wait is not None:
            wait()

    # --- looking ---
    def explained_for(
        self, shapes: tuple[tuple[int, ...], ...], numbers: tuple[Any, ...] = ()
    ) -> Program:
        """This program, whose explanations and simulations are for arguments of these extents, and
        whose explanations for these numbers."""
        if (shapes, numbers) == (self.example_shapes, self.example_numbers):
            return self
        other = copy.copy(self)
        other.example_shapes, other.example_numbers, other._same = shapes, numbers, self
        return other

    @property
    def kernels(self) -> list[Any]:
        """The kernels in order of launch (nodes of the optimised graph)."""
        return [n for n in topological(self.roots) if not isinstance(n, Input)]

    @user_facing
    def explain(self, backend: str | None = None) -> str:
        """Every kernel: what was fused into it, what was not and why, bytes and operations.

        `explain("cuda")` says what it would be on an H200, also where there is no GPU.
        """
        from .explain import explain

        program = self if backend in (None, self.backend) else self._on(str(backend))
        return Text(explain(program._here()))

    def _here(self) -> Program:
        """What runs on the examples: products under `Tuned()` make it depend on the extents."""
        if self.tuned_products is None or self.example_shapes is None:
            return self
        made = self.tuned_products.on(self.example_shapes)
        made.example_shapes, made.example_numbers = self.example_shapes, self.example_numbers
        return made  # type: ignore[no-any-return]

    def _on(self, backend: str) -> Program:
        """The same program for another backend, to be looked at."""
        other = Program(
            self.source_roots,
            self.tree,
            self.settings,
            backend,
            self.source_arguments,
            self.params,
            self.name,
        )
        other.example_shapes, other.example_numbers = self.example_shapes, self.example_numbers
        return other

    @user_facing
    def source(self, backend: str | None = None, arch: str | None = None) -> str:
        """The code that runs: CUDA C++ or LLVM IR of each kernel (NumPy runs the graph itself).

        `source("cuda", arch="sm_90a")` needs neither a GPU nor anything installed for one.
        """
        if backend is not None and backend != self.backend:
            return self._on(backend).source(arch=arch)
        return Text(self.offered("source")(self._here(), arch))

    def graph(self) -> str:
        """The fused graph in Graphviz's language."""
        from .graphviz import graphviz

        return Text(graphviz(self))

    @user_facing
    def scheduled(self, *unnamed: Any, **schedules: Any) -> Program:
        """The same meaning under other schedules, by operation name, or by number (`"#3"`, as
        `explain` numbers operations: `program.scheduled(**{"#3": Row()})`)."""
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
        )
        made.overrides = {**self.overrides, **schedules}
        made.example_shapes, made.example_numbers = self.example_shapes, self.example_numbers
        return made

    def __str__(self) -> str:
        from treadle.dsl.printer import show_graph

        return printable(show_graph(self.roots))

    def __repr__(self) -> str:
        written = sum(not isinstance(n, Input) for n in topological(self.source_roots))
        operations = f"{written} operation{'s' * (written != 1)}"
        return (f"<Program {self.name} on {self.backend}: {operations}, {len(self.kernels)} after "
                "fusion; program.explain() tells more>")  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold what files do."""
        from . import storage

        return unpacked, (storage.packed(self),)

    def __copy__(self) -> Program:
        """Another program over the same graph: no file is made for that."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    @user_facing
    def save(self, path: Any) -> None:
        """Write the program to a file that `td.load` reads, on this machine or another."""
        from . import storage

        storage.save(self, path)

    @user_facing
    def tune(self, *args: Any, budget: float = 60.0, keep: int | None = None,
             tolerance: float | None = None, progress: bool = True) -> Program:  # fmt: skip
        """A new program under the fastest schedules found for `args`, and with products computed in
        the fastest way of those that are left open; this one stays as it is.

        `budget` in seconds; `progress` shows a bar; `keep` and `tolerance`: fewer different
        schedules, the few that stay within `tolerance` of the `keep` best of each operation.  The
        table of all timings is the result's `.tuning`.  Ctrl-C keeps the best so far.  What was
        found is remembered for extents of the same power of two, and is what `Tuned()` uses.
        """
        from treadle.tuning.tune import tune

        tuned = tune(self, args, budget=budget, keep=keep, tolerance=tolerance, progress=progress)
        assert isinstance(tuned, Program)
        return tuned


def _check_names(roots: Sequence[Leaf], schedules: dict[str, Any]) -> None:
    """Schedules may only be given to operations that are there."""
    if not schedules:
        return
    written = [n for n in topological(roots) if not isinstance(n, Input)]
    names = {n.label.name for n in written if n.label.name}
    numbers = {f"#{k}" for k in range(1, len(written) + 1)}
    for wanted in schedules:
        if wanted not in names | numbers:
            near = did_you_mean(wanted, names)
            known = ", ".join(sorted(names)) or "none"
            told = f"Named operations: {known}.  Name one with name=… where it is built."
            raise TracingError(
                f"the program has no operation named {wanted!r}.",
                hint=told if near is None else f"{near}\n{told}",
            )


def _tuned_products(program: Program) -> Any:
    """Who runs a program whose products ask for what was measured; None where none does."""
    if all(isinstance(n, Input) or n.label.schedule is None
           for n in topological(program.source_roots)):  # fmt: skip
        return None

    from treadle.tuning.memory import TunedProducts

    return TunedProducts.of(program)


def _check_hints(roots: Sequence[Leaf]) -> None:
    """Schedules may only speak of arrays that are there."""
    if any(not isinstance(n, Input) and n.label.schedule is not None for n in topological(roots)):
        from treadle.skeletons.lower.caching import require_arrays

        require_arrays(roots)


def operation_names(programs: Iterable[Sequence[Leaf]]) -> list[str]:
    """The names that operations of these programs were given, each once."""
    found = {n.label.name for roots in programs for n in topological(roots)
             if not isinstance(n, Input) and n.label.name}  # fmt: skip
    return sorted(found)


def unnamed_schedules(what: str, given: Sequence[Any], names: Sequence[str]) -> TracingError:
    """The error for `.scheduled(Row())`: it has to say of which operation. `names`: known ones."""
    name, schedule = names[0] if names else "name", given[0]
    if len(given) == 2 and given[0] in names:  # as in scheduled("blur", Row())
        name, schedule = given
    told = f"Named operations: {', '.join(names)}." if names else (
        "An operation gets its name where it is built, with name=…."
    )  # fmt: skip
    return TracingError(
        f"scheduled takes schedules by the names of operations, got {schedule!r} without one.",
        hint=f"Write {what}.scheduled({name}={schedule!r}).  {told}",
    )


@user_facing
def load(path: Any) -> Program:
    """The program of a file that `Program.save` wrote, ready to run.

    Nothing is imported: where the program has an order or a class of results of your own, import
    its module first.  `StorageError` for that, and for a file that is damaged, of another format or
    of another version.
    """
    from . import storage

    name, text = storage.content(path)
    return storage.unpacked(text, Program, name)


def unpacked(text: str) -> Program:
    """The program of a pickle."""
    from . import storage

    return storage.unpacked(text, Program)
