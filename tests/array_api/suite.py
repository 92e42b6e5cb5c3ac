"""Run the conformance suite of the Array API standard, from a clone that the user names.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests SUITE
    .venv/bin/pip install -r SUITE/requirements.txt
    make test-array-api SUITE=path [ARRAY_API_ARGS="--backend native --max-examples 20 -k sort"]

Without `--backend` the suite runs on `reference`, where examples are cheap, and on `native`, where
many of them compile a kernel, with fewer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

#: The commit of the suite with which skips.txt was written.
COMMIT = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
#: Examples of each test, by backend.
EXAMPLES = {"reference": 50, "native": 5}


def run(suite: Path, backend: str, examples: int, more: list[str]) -> int:
    """Run pytest on the suite; its exit status."""
    environment = dict(
        os.environ,
        ARRAY_API_TESTS_MODULE="treadle",
        ARRAY_API_TESTS_VERSION="2024.12",
        TREADLE_BACKEND=backend,
    )
    skips = Path(__file__).resolve().with_name("skips.txt")
    # (Without --rootdir, or with skips.txt as an argument of its own, pytest finds this folder's
    # root and conftest.py, and names of tests change.)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "array_api_tests",
               "--rootdir", f"{suite.resolve()}", "-c", f"{suite.resolve() / 'pytest.ini'}",
               "--disable-deadline", "--max-examples", f"{examples}", f"--skips-file={skips}",
               *more]  # fmt: skip
    print(f"== {backend}: {examples} examples of each test", flush=True)
    return subprocess.run(command, cwd=suite, env=environment, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", type=Path, help="a clone of github.com/data-apis/array-api-tests")
    parser.add_argument("--backend", choices=tuple(EXAMPLES))
    parser.add_argument("--max-examples", type=int)
    given, more = parser.parse_known_args()
    stubs = given.suite / "array-api" / "src" / "array_api_stubs" / "_2024_12"
    if not (given.suite / "array_api_tests").is_dir() or not stubs.is_dir():
        raise SystemExit(
            f"{given.suite} is no clone of array-api-tests with its submodule: git clone "
            "--recurse-submodules https://github.com/data-apis/array-api-tests"
        )
    head = subprocess.run(
        ["git", "-C", given.suite, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if head != COMMIT:
        print(f"note: the suite is at {head or 'no commit'}; skips.txt is for {COMMIT}")
    backends = [given.backend] if given.backend else list(EXAMPLES)
    return max(run(given.suite, b, given.max_examples or EXAMPLES[b], more) for b in backends)


if __name__ == "__main__":
    sys.exit(main())
