"""The C files of the runtime as LLVM IR, which is what is shipped.

    pip install -e '.[runtime]'
    python -m treadle.backend.native.runtime.build

compiles all of them again with the clang in PyPI's `ziglang`, of the version pinned here (Python's
headers are needed, NumPy brings its own).  The result is the same on every machine, with every
supported version of Python and NumPy: what clang says about the machine, the processor and the
structures of foreign headers is dropped, and modules.py adds the triple and the data layout of the
machine that the code runs on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

from treadle.dsl.records import dataclass

#: The version of `ziglang` on PyPI, and its clang.
ZIGLANG, CLANG = "0.17.1", "22.1.8"
FLAGS = (
    "-S", "-emit-llvm", "-Os", "-g0", "-std=gnu11", "-fPIC",
    "-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument",
    # Undefined behaviour is not to be caught, and stacks need no guards or unwinding.
    "-fno-sanitize=all", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
    # Nothing that depends on the processor, or that makes the text longer than it must be.
    "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-fno-strict-aliasing",
    "-fno-ident", "-fno-discard-value-names", "-Xclang", "-no-enable-noundef-analysis",
)  # fmt: skip

_HERE = Path(__file__).parent
_DEVICE = _HERE.parents[1] / "cuda" / "device"
#: Files without anything of an operating system or a processor in them are compiled for this one.
_ANY = "x86_64-linux-gnu"


class BuildError(Exception):
    """No pinned clang or no headers here, or clang's errors."""


@dataclass(frozen=True)
class Module:
    """A C file, the LLVM IR made of it, and the target that clang gets."""

    source: Path
    output: Path
    target: str
    python: bool = False  # includes Python.h and NumPy's headers

    @property
    def command(self) -> str:
        """What makes the text, from the folder of the source."""
        include = " -isystem PYTHON -isystem NUMPY" if self.python else ""
        flags = " ".join(FLAGS)
        return f"python -m ziglang cc -target {self.target} {flags}{include} {self.source.name}"

    def sources(self) -> list[Path]:
        """The C file and the headers of ours that it includes."""
        found = [self.source]
        for path in found:
            names = re.findall(r'^#include "(.+)"$', path.read_text(encoding="utf-8"), re.M)
            found += [p for name in names if (p := path.with_name(name)) not in found]
        return found

    def digest(self) -> str:
        """Of the source, whatever its line ends are here."""
        made = hashlib.sha256()
        for path in self.sources():
            made.update(path.read_text(encoding="utf-8").encode())
        return made.hexdigest()

    def text(self) -> str:
        """What the output must be; `BuildError` if clang cannot make it here."""
        names = ", ".join(path.name for path in self.sources())
        return (
            f"; {self.source.name}, compiled by clang {CLANG} (ziglang {ZIGLANG}) and tidied by\n"
            "; python -m treadle.backend.native.runtime.build: change the C file, not this one.\n"
            f"; {self.command}\n"
            f"; sha256 of {names}: {self.digest()}\n\n{_tidied(self._compiled())}"
        )

    def _compiled(self) -> str:
        require_clang()
        include: list[str] = []
        if self.python:
            headers = [Path(sysconfig.get_path("include")), Path(np.get_include())]
            if not (headers[0] / "Python.h").exists():
                raise BuildError(f"There is no Python.h in {headers[0]}: install python3-dev.")
            include = [x for path in headers for x in ("-isystem", str(path))]
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "out.ll"
            command = [sys.executable, "-m", "ziglang", "cc", "-target", self.target, *FLAGS,
                       *include, "-o", str(made), self.source.name]  # fmt: skip
            done = subprocess.run(command, cwd=self.source.parent, capture_output=True, text=True,
                                  encoding="utf-8", check=False)  # fmt: skip
            if done.returncode:
                raise BuildError(done.stderr)
            return made.read_text(encoding="utf-8")


MODULES = (
    Module(_HERE / "team.c", _HERE / "team.linux-x86_64.ll", "x86_64-linux-gnu"),
    Module(_HERE / "team.c", _HERE / "team.linux-aarch64.ll", "aarch64-linux-gnu"),
    Module(_HERE / "team.c", _HERE / "team.generic.ll", "x86_64-freestanding"),
    Module(_HERE / "late.c", _HERE / "late.ll", _ANY, python=True),
    Module(_HERE / "passes.c", _HERE / "passes.ll", _ANY),
    Module(_HERE / "replay.c", _HERE / "replay.ll", _ANY, python=True),
    Module(_DEVICE / "bus.c", _DEVICE / "bus.ll", _ANY),
)


def require_clang() -> None:
    """Raise `BuildError` unless the pinned clang is here."""
    try:
        found = importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        found = "not installed"
    if found != ZIGLANG:
        raise BuildError(f"pip install ziglang=={ZIGLANG} (it is {found}).")


def _tidied(text: str) -> str:
    """The same code without what ties it to a machine, a version of LLVM or of the headers."""
    # Who made it, for which machine; metadata; comments; where variables begin and end to live.
    dropped = r"^(; ModuleID|source_filename|target |!|; Function Attrs|.*@llvm\.lifetime).*\n"
    text = re.sub(dropped, "", text, flags=re.M)
    text = re.sub(r" +; preds = .*$|, !llvm\.loop !\d+", "", text, flags=re.M)
    # Attributes: most tell the processor, or help optimisations that have been made.
    text = re.sub(r"^attributes .*\n", "", text, flags=re.M)
    text = re.sub(r" #\d+(?=,| \{$|$)", " nounwind", text, flags=re.M)
    text = re.sub(
        r" (captures\([^)]*\)|initializes\((\([^)]*\)(, )?)*\)|range\([^)]*\)"
        r"|nonnull|noundef|readonly|writeonly|(local_)?unnamed_addr)(?=[ ,)])", "", text
    )  # fmt: skip
    # Objects of others, whatever they consist of.
    text = re.sub(r"external (hidden )?global [^,]+", "external global i8", text)
    defined = re.compile(r"^(%\S+) = type .*\n", re.M)
    while unused := [m for m in defined.finditer(text)
                     if len(re.findall(re.escape(m[1]) + r"(?![\w.])", text)) == 1]:  # fmt: skip
        for found in unused:
            text = text.replace(found[0], "")
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> None:
    for module in MODULES:
        module.output.write_text(module.text(), encoding="utf-8", newline="\n")
        print(module.output)


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(str(error))
