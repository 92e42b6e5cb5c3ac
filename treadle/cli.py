"""The command line: run and explain the examples, and show what works on this machine.

What only some commands need is imported by them, so ``treadle --help`` is fast.
"""

from __future__ import annotations

import ast
import inspect
import io
import platform
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version as installed
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import treadle as td
from treadle import TreadleError
from treadle.backend.registry import BACKENDS, why_not
from treadle.dsl.text import PLAIN
from treadle.examples._show import ExampleError, listening

app = typer.Typer(
    name="treadle",
    help="A purely functional array language whose thread order is a value that you choose.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"treadle {td.__version__}")
        raise typer.Exit


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", help="Show treadle's version.", callback=_show_version)
    ] = False,
) -> None:
    """Options common to all commands."""


# Help texts for parameters of the examples' `main` functions.
MEANING = {
    "output": "A folder for the picture, or the picture's own path, ending in .png.",
    "image": "A picture of your own; without one, a portrait of Grace Hopper.",
    "size": "Pixels along the longer side, or cells along the side.",
    "strong": "How steep a strong edge is, in grey levels (0 to 1) per pixel.",
    "images": "How many images.",
    "workers": "How many processes.",
    "generations": "How many generations to play.",
    "steps": "How many steps in time to take.",
    "memory": "What each process may have in memory, as in 500 MB.",
    "side": "Squares along the side of the board, or pixels along the side of a patch.",
    "doublings": "How often the number of jumps is doubled.",
    "seed": "Where the random numbers start.",
    "zoom": "Pixels per cell.",
    "x": "The middle of the window: real part.",
    "y": "The middle of the window: imaginary part.",
    "span": "The width of the window.",
    "limit": "After how many iterations a point counts as inside.",
    "bodies": "How many bodies.",
    "options": "How many options to price.",
    "paths": "How many random walks.",
    "height": "How many pixels high the picture is.",
    "shown": "How many of them to list.",
    "rows": "How many rows the matrices have.",
    "inner": "How many columns the first matrix has, and rows the second.",
    "columns": "How many columns the second matrix has.",
    "batches": "How many batches of 256 pages there are.",
    "sites": "How many sites the pages belong to.",
    "links": "How many pages link to each page.",
    "iterations": "How many iterations of the ranks to compute.",
    "colours": "How many colours.",
    "explain": "Print the program's explain() for its kernels.",
    "most": "The maximal number of iterations.",
}


#: The arguments of a user's program.
Shapes = Annotated[
    list[str] | None,
    typer.Option(help="64x64, 64x64:int32, or =0.5: for every argument, or once for each."),
]


class Mistake(Exception):
    """An error that the user can correct; its text says how."""


def main() -> None:
    """Run the command line; a user's mistake ends in a message and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN)
    app()


@app.command()
def examples() -> None:
    """List the examples, one line each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name in _names():
        table.add_row(f"[bold]{name}[/bold]", _first_line(name))
    _console().print(table)
    _console().print("\nRun one: treadle example canny   (and --help after it for its options)")


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def example(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Which one.", show_default=False)] = "",
) -> None:
    """Run an example; `treadle example NAME --help` lists its options."""
    if name in ("", "-h", "--help"):
        _console().print("Usage: treadle example NAME [OPTIONS]\n", markup=False)
        examples()
        return
    with _friendly():
        module = _example(name)
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    one.command(help=inspect.getdoc(module.main))(_runner(module))
    one(args=ctx.args, prog_name=f"treadle example {name}")


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="An example, or my_program.py:function.")],
    shape: Shapes = None,
    backend: Annotated[
        str | None, typer.Option(help="native or cuda (needs no GPU); else where it would run.")
    ] = None,
) -> None:
    """Show what a program becomes: its kernels, what was fused, and why."""
    with _friendly():
        text = _program(name, shape).explain(backend)
    _console().print(text, markup=False, highlight=False, soft_wrap=True)


@app.command()
def source(
    name: Annotated[str, typer.Argument(help="An example, or my_program.py:function.")],
    shape: Shapes = None,
    backend: Annotated[
        str | None, typer.Option(help="native (LLVM IR) or cuda (CUDA C++; needs no GPU).")
    ] = None,
    arch: Annotated[str | None, typer.Option(help="Of the GPU: sm_90a, …")] = None,
) -> None:
    """Print the code of a program's kernels."""
    with _friendly():
        typer.echo(_program(name, shape).source(backend, arch))


def _program(name: str, shapes: list[str] | None) -> Any:
    """The program of an example, or of a user's file."""
    from treadle import explore as pages

    with _friendly():
        if ":" not in name and not name.endswith(".py"):
            if shapes:
                raise Mistake("--shape is for programs of your own: FILE.py:FUNCTION.")
            return _example(name).program()
        try:
            if ":" not in name:
                raise Mistake(pages.naming_no_function(Path(name)))
            return pages.lowered(name, shapes or ["32x32"]).program
        except pages.PageError as mistake:
            raise Mistake(str(mistake)) from None


@app.command()
def explore(
    program: Annotated[
        str, typer.Argument(help="my_program.py:function; without one, a choice of programs.")
    ] = "",
    shape: Shapes = None,
    kernel: Annotated[
        str | None, typer.Option(help="The operation to look at, where there are several.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The page.")] = Path("treadle-output/explore.html"),
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Write a page that shows an order of threads: its steps, its cache, its kernel."""
    with _friendly(), _console(stderr=True).status("collecting addresses and kernels"):
        from treadle import explore as pages

        try:
            if program:
                programs = [pages.load_program(program, shape or ["32x32"], kernel)]
            else:
                programs = pages.presets(pages.plane_shapes(shape)) if shape else pages.presets()
            html = pages.page(programs)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(html, encoding="utf-8")
        except pages.PageError as mistake:
            raise Mistake(str(mistake)) from None
        except OSError as problem:
            raise Mistake(f"cannot write {output}: {problem.strerror or problem}") from None
    where = output.resolve()
    _console().print(f"page: {output}", markup=False, highlight=False, soft_wrap=True)
    if show and not webbrowser.open(where.as_uri()):
        _console().print(f"no browser was found; open {where.as_uri()} in one", soft_wrap=True)


@app.command()
def backends() -> None:
    """Show which backends work here and, for those that don't, why and what to install."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, state in td.backends().items():
        works = state.startswith("works")
        table.add_row(Text(name, style="bold green" if works else "bold red"), Text(state))
    _console().print(table)


@app.command()
def doctor() -> None:
    """Try what treadle needs on this machine, and say what to install; exit code 1 if something
    that it cannot do without is broken."""
    from treadle.doctor import examine, healthy

    findings = examine()
    for finding in findings:
        _console().print(str(finding), markup=False, highlight=False, soft_wrap=True)
    if not healthy(findings):
        _console().print("\nSomething that treadle needs is broken: see above.")
        raise typer.Exit(1)
    _console().print("\nPrograms run here.")


@app.command()
def ceilings(
    backend: Annotated[
        list[str] | None, typer.Option(help="native, cuda; all that work here if not given.")
    ] = None,
    shown: Annotated[
        bool, typer.Option("--show", help="Only show what is known, without measuring.")
    ] = False,
) -> None:
    """Measure the peak rates of this machine, for the model that chooses schedules, and the extent
    from which matrix products use Strassen's algorithm."""
    from treadle.ceilings import machine_of, measure, products
    from treadle.skeletons.model import device

    with _friendly():
        known = [b.name for b in BACKENDS.values() if b.modelled]
        for name in backend or [n for n in known if why_not(n) is None]:
            if name not in known:
                say = " or ".join(known)
                raise Mistake(f"the model knows no device of {name!r}: say {say}.")
            reason = why_not(name)
            if reason is not None:
                raise Mistake(f"{name} does not work here: {reason}")
            found = device.ceilings(name, machine_of(name))
            if not shown:
                with _console(stderr=True).status(f"measuring {name}"):
                    found = measure(name)
                    fast = products(name, remeasure=True)
                device.keep(name, machine_of(name), found)
            else:
                fast = products(name, remeasure=False)
            table = Table.grid(padding=(0, 2, 0, 0))
            for row in (*found.rows(), *fast):
                table.add_row(*row)
            _console().print(f"{name}: {found.name}", markup=False, highlight=False)
            _console().print(table)
            _console().print(found.origin, markup=False, highlight=False, soft_wrap=True)


@app.command()
def version() -> None:
    """Show the versions of treadle, of Python and of the libraries that it uses."""
    typer.echo(f"treadle {td.__version__}")
    for package in ("numpy", "llvmlite", "numba", "cupy-cuda13x", "cupy-cuda12x", "dask"):
        try:
            typer.echo(f"{package} {installed(package)}")
        except PackageNotFoundError:
            continue
    typer.echo(f"python {platform.python_version()} on {platform.platform()}")


def parameters(name: str) -> list[str]:
    """The names of an example's own options."""
    return list(inspect.signature(_example(name).main).parameters)


def _names() -> list[str]:
    listed = (path.name for path in files("treadle.examples").iterdir())
    return sorted(name[:-3] for name in listed if name.endswith(".py") and name[0] != "_")


def _first_line(name: str) -> str:
    source = files("treadle.examples").joinpath(f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _example(name: str) -> ModuleType:
    name, names = name.replace("-", "_"), _names()
    if name not in names:
        close = get_close_matches(name, names, n=1)
        guess = f" Did you mean {close[0]}?" if close else ""
        raise Mistake(f"no example is called {name!r}.{guess}\nThere are: {', '.join(names)}")
    return import_module(f"treadle.examples.{name}")


def _runner(module: ModuleType) -> Callable[..., None]:
    """A command with the options of the example's `main`, and `--backend`."""

    def run(backend: str | None = None, **given: Any) -> None:
        with _friendly():
            with td.config(backend=backend) if backend else nullcontext(), _progress(module):
                made = module.main(**given)
            _present(made)

    signature = inspect.signature(module.main, eval_str=True)
    options = [_option(p) for p in signature.parameters.values()]
    options.append(
        inspect.Parameter(
            "backend",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(help="See `treadle backends`.")],
        )
    )
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in options}
    return run


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    whole = parameter.annotation in (int, int | None)
    least = None if not whole else 0 if parameter.name == "seed" else 1
    flag = (f"--{parameter.name}",) if parameter.annotation is bool else ()
    option = typer.Option(*flag, help=MEANING.get(parameter.name), min=least)
    annotated = Annotated[parameter.annotation, option]  # type: ignore[name-defined]
    return parameter.replace(annotation=annotated, kind=inspect.Parameter.KEYWORD_ONLY)


@contextmanager
def _friendly() -> Iterator[None]:
    """Convert a user's mistake into its message and exit code 1; other exceptions propagate."""
    try:
        yield
    except TreadleError as mistake:
        # The location is in this file if the user gave a command and no program.
        here = mistake.where is not None and mistake.where.file == __file__
        message = (
            "\n  ".join(filter(None, (mistake.message, mistake.hint))) if here else str(mistake)
        )
    except (Mistake, ExampleError) as mistake:
        message = str(mistake)
    except ModuleNotFoundError as missing:
        if (missing.name or "treadle").partition(".")[0] == "treadle":
            raise
        top = (missing.name or "").partition(".")[0]
        message = f"this needs {missing.name}: pip install {_PACKAGES.get(top, top)}"
        if top in _DRAWN_WITH:
            message += " (all that the examples need: pip install 'treadle[examples]')"
    else:
        return
    _console(stderr=True).print("[bold red]error:[/bold red]", end=" ")
    _console(stderr=True).print(message, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def _progress(module: ModuleType) -> Iterator[None]:
    """Show what an example is doing, for how long, and its progress."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(24),
        TimeElapsedColumn(),
    )
    console = _console(stderr=True)
    shown = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task(module.__name__.rpartition(".")[2], total=None)

        def listen(what: str, done: int, total: int | None) -> None:
            progress.update(task, description=what, completed=done, total=total)

        with listening(listen):
            yield


def _present(made: Any) -> None:
    """Print an example's notes and tables, and the path of its picture."""
    console = _console()
    for note in made.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
        console.print()
    for table in made.tables:
        shown = Table(title=table.title, title_justify="left", title_style="bold", box=None)
        for name, first in zip(table.columns, table.rows[0] if table.rows else (), strict=False):
            justify: Literal["left", "right"] = "left" if isinstance(first, str) else "right"
            shown.add_column(name, justify=justify, overflow="fold")
        for cells in table.cells():
            shown.add_row(*cells)
        console.print(shown)
        console.print()
    if made.picture:
        console.print(f"picture: {made.picture}", markup=False, highlight=False, soft_wrap=True)


#: The name of the package that provides a module.
_PACKAGES = {"PIL": "pillow"}
_DRAWN_WITH = ("PIL", "matplotlib", "scipy")
#: The width of what is not a terminal: wider than any table.
_WIDE = 200


def _console(*, stderr: bool = False) -> Console:
    """The terminal; where there is none, lines as long as they are, so that no table is cut."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDE)


if __name__ == "__main__":
    main()
