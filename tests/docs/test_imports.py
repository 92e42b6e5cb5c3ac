"""Imports go one way: `treadle/` → `backend/` → `skeletons/` → `dsl/`, without a circle.

Imports inside functions count as well.  They are for what costs time to load and is not needed to
run a program that is known (`ON_DEMAND`), and for packages that may be missing (`OPTIONAL`).
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: From the bottom up.
FOLDERS = ("dsl", "skeletons", "backend", "treadle")

#: Packages that are heavy, or that may be missing.
OPTIONAL = {
    "cuda",
    "cupy",
    "cupy_backends",
    "importlib",  # its metadata, with packages for mail
    "matplotlib",
    "numba",
    "pygments",
    "pymetis",
    "resource",
    "rich",
    "scipy",
}
#: The table of lowerings imports those of CPUs, or those of GPUs, when it is asked for one.
LOWERINGS = "treadle.skeletons.lower.lower"
#: What only some programs or calls need: loaded when they do.
ON_DEMAND = {
    "treadle.backend.cuda.device.driver",  # and the next two: they need the CUDA driver and CuPy
    "treadle.backend.cuda.device.optional",
    "treadle.backend.cuda.graphs.launch",
    "treadle.backend.cuda.several.driver",
    "treadle.backend.cuda.several.executable",  # programs on several GPUs
    "treadle.backend.native.codegen.compile",  # programs that are not in the cache
    "treadle.backend.native.codegen.divergence",  # programs that are explained
    "treadle.backend.native.codegen.engine",  # and the next one: LLVM's library
    "treadle.backend.native.codegen.llvm",
    "treadle.backend.native.codegen.fingerprint",
    "treadle.backend.native.codegen.merged",
    "treadle.backend.dask.stream",
    "treadle.backend.native.crossover",
    "treadle.backend.native.products",
    "treadle.backend.runtime.storage",
    "treadle.ceilings",  # commands of `treadle`
    "treadle.doctor",
    "treadle.driver.explain",
    "treadle.driver.shown",
    "treadle.explore",
    "treadle.skeletons.ir.literals",
    "treadle.skeletons.ir.narrow",
    "treadle.skeletons.lower.caching",
    "treadle.skeletons.lower.fold.rows",
    LOWERINGS,
    "treadle.skeletons.model.choose",
    "treadle.skeletons.model.device",
    "treadle.skeletons.model.folds",
    "treadle.skeletons.model.report",
    "treadle.skeletons.schedules.prim",
    "treadle.skeletons.simulator.engines",
    "treadle.skeletons.simulator.programs",
    "treadle.tuning.memory",
    "treadle.tuning.report",
    "treadle.tuning.tune",
}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules() -> dict[str, Path]:
    """All modules by the name that they are imported under."""
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if folder == "treadle" and parts[1] in (*FOLDERS, "examples"):
                continue  # links
            parts = parts if folder == "treadle" else ("treadle", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def folder_of(module: str) -> int:
    parts = module.split(".")
    return (
        FOLDERS.index(parts[1]) if len(parts) > 1 and parts[1] in FOLDERS[:-1] else len(FOLDERS) - 1
    )


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run, wherever they stand."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif is_for_types(node):
            for other in node.orelse:
                yield from statements(ast.Module([other], []))
        else:
            yield from statements(node)


def imported(
    module: str, path: Path, known: dict[str, Path], tree: ast.AST | None = None
) -> Iterator[str]:
    """The modules that a module, or a part of it, imports; others than treadle's if `known` has
    them."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in statements(tree or parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            whole = (f"{base}.{alias.name}" for alias in node.names)
            names = [name if name in known else base for name in whole]
        yield from (name for name in names if name in known and name != module)


@cache
def arrows() -> dict[str, set[str]]:
    known = modules()
    return {module: set(imported(module, path, known)) for module, path in known.items()}


def test_no_import_runs_up() -> None:
    up = [
        f"{module} imports {other}"
        for module, others in arrows().items()
        for other in others
        if folder_of(other) > folder_of(module)
    ]
    assert not up, "\n".join(sorted(up))


def test_skeletons_are_layers() -> None:
    """Schedules, index maps and the kernel IR know nothing of lowerings, and these no costs.  The
    entry point alone knows the lowerings of products and linear algebra, which build on others."""
    order = ("schedules", "access", "ir", "lower", "products", "linalg", "model")
    up = [
        f"{module} imports {other}"
        for module, others in arrows().items()
        for other in others
        if module.startswith("treadle.skeletons.") and other.startswith("treadle.skeletons.")
        and module != LOWERINGS
        for here, there in [(module.split(".")[2], other.split(".")[2])]
        if here in order and there in order and order.index(there) > order.index(here)
    ]  # fmt: skip
    assert not up, "\n".join(sorted(up))


def test_no_circle() -> None:
    """Modules whose imports are all known are taken away until none is left."""
    left = arrows()
    left.pop("treadle")  # imports all, and is imported by tools of the command line
    assert "treadle" not in {x for n, o in left.items() for x in o if not n.startswith("treadle.ex")
                             and folder_of(n) < len(FOLDERS) - 1}  # fmt: skip
    while True:
        done = {module for module, others in left.items() if not others & left.keys()}
        if not done:
            break
        left = {module: others for module, others in left.items() if module not in done}
    around = {m: sorted(o & left.keys()) for m, o in left.items()}
    assert not around, "\n".join(f"{m} imports {', '.join(o)}" for m, o in sorted(around.items()))


@cache
def on_demand() -> frozenset[tuple[str, str]]:
    """Modules, and what they import inside functions."""
    known, found = modules(), set[tuple[str, str]]()
    for module, path in known.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = list(statements(node))
                ours = set(imported(module, path, known, node))
                found |= {(module, other) for other in ours}
                if len(inside) > len(ours):
                    others = (n for n in inside if not (isinstance(n, ast.ImportFrom) and n.level))
                    names = {n.module or "" if isinstance(n, ast.ImportFrom) else n.names[0].name
                             for n in others}  # fmt: skip
                    outside = {name.split(".")[0] for name in names} - {"treadle"}
                    found |= {(module, name) for name in outside}
    return frozenset(found)


def test_imports_inside_functions_are_of_what_is_heavy() -> None:
    found = {(module, other) for module, other in on_demand() if module != LOWERINGS}
    wrong = [f"{m} imports {other}" for m, other in found if other not in ON_DEMAND | OPTIONAL]
    assert not wrong, "\n".join(sorted(wrong))
    unused = (ON_DEMAND | OPTIONAL) - {other for _, other in found}
    assert not unused, f"never imported on demand: {sorted(unused)}"


def test_a_known_program_loads_nothing_of_it(tmp_path: Path) -> None:
    """A program whose code is in the cache is neither lowered nor compiled nor explained."""
    code = (
        "import sys, numpy as np, treadle as td\n"
        "f = td.jit(lambda a: td.sum(td.sin(a) + 1, axis=0), backend='native')\n"
        "f(np.ones((100, 100), np.float32))\n"
        "print(*[m for m in sys.modules if m.startswith(('treadle.', 'numba', 'llvmlite'))])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TREADLE_CACHE_DIR": str(tmp_path)}
    first, second = (
        set(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True,
                           env=environment).stdout.split())
        for _ in range(2)
    )  # fmt: skip
    lowerings = {other for module, other in on_demand() if module == LOWERINGS}
    assert "treadle.skeletons.lower.fold.cpu" in first & lowerings
    assert "numba" not in first  # it takes as long to load as the rest
    assert not second & (ON_DEMAND | lowerings | {"llvmlite.binding"})


def test_what_is_bound_later_is_bound() -> None:
    """By `import treadle` alone, in a process that has done nothing else."""
    tree = ast.parse((ROOT / "dsl" / "late_binding.py").read_text(encoding="utf-8"))
    names = {
        name
        for node in ast.walk(tree)
        for name in (
            [a.asname for a in node.names if a.asname] if isinstance(node, ast.ImportFrom)
            else [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if isinstance(node, ast.Assign) else []
        )
    }  # fmt: skip
    assert {"matmul", "Array", "instead_of_keyword", "show_expression"} <= names
    code = (
        "import treadle\n"
        "from treadle.dsl import late_binding as later\n"
        f"print([n for n in {sorted(names)} if not hasattr(later, n)])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True,
                          env=environment)  # fmt: skip
    assert done.stdout.strip() == b"[]"


def test_no_import_hides_in_a_string() -> None:
    """Modules are named to be imported by the registry of backends and the command line alone."""
    allowed = {"treadle.backend.registry", "treadle.cli"}
    hidden = [
        f"{module}: {ast.unparse(node)}"
        for module, path in modules().items()
        if module not in allowed
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
        and "treadle" in ast.unparse(node)
    ]  # fmt: skip
    assert not hidden, "\n".join(hidden)


def test_the_walk_sees_what_it_should() -> None:
    found = arrows()
    assert len(found) > 200
    assert "treadle.dsl.expr" in found["treadle.dsl.node"]
    assert "treadle.driver.explain" in found["treadle.driver.program"]  # inside a function
    assert (
        "treadle.backend.native.runtime.code" in found["treadle.backend.native.codegen.compile"]
    )  # by package


def test_every_module_can_be_imported() -> None:
    """Documentation tools import all of them, also where CuPy and GPUs are missing."""
    program = (
        "import importlib, pkgutil, treadle\n"
        "for m in pkgutil.walk_packages(treadle.__path__, 'treadle.'):\n"
        "    try:\n"
        "        m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name.partition('.')[0] not in ('dask', 'distributed'):  # an extra\n"
        "            raise\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          cwd=ROOT, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
