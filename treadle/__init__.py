"""treadle: a purely functional array language for Python, compiled for CPUs and GPUs.

    import treadle as td

Programs build typed expressions, which are computed when `td.run` or a function compiled by
`td.jit` is called.  The same program has the same meaning on every backend.
"""

from __future__ import annotations

import os as _os
import sys as _sys
from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING

if not _os.path.isdir(_os.path.join(_os.path.dirname(__file__), "dsl")):
    # In a checkout on a file system without symbolic links, the folders are siblings of this one.
    __path__.append(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))))

# `X as X` and `*` export names to type checkers; `__all__`, below, is what they export.
from treadle.backend.cuda.several.sharded import Sharded as Sharded
from treadle.backend.registry import backends as backends
from treadle.driver.evaluator import Driver as _Driver
from treadle.driver.jit import jit as jit, run as run
from treadle.driver.program import Program as Program, load as load
from treadle.driver.several import shard as shard
from treadle.driver.streaming import stream as stream
from treadle.dsl import VERSION as _VERSION
from treadle.dsl.array import Array as Array
from treadle.dsl.autodiff import *
from treadle.dsl.errors import *
from treadle.dsl.errors import no_attribute as _no_attribute
from treadle.dsl.evaluator import install as _install
from treadle.dsl.frontend.sources import use as use
from treadle.dsl.frontend.standard import *
from treadle.dsl.frontend.suggestions import missing as _missing
from treadle.dsl.operations import fourier as _fourier, random as random
from treadle.dsl.operations.algebra import linear_algebra as _linear_algebra
from treadle.dsl.operations.algebra.contraction import *
from treadle.dsl.operations.algebra.matrices import *
from treadle.dsl.operations.algebra.polynomials import *
from treadle.dsl.operations.algebra.products import *
from treadle.dsl.operations.control import *
from treadle.dsl.operations.descriptions import complete_methods as _complete_methods
from treadle.dsl.operations.elements.bits import *
from treadle.dsl.operations.elements.choosing import ignore as ignore
from treadle.dsl.operations.elements.foreign import *
from treadle.dsl.operations.elements.functions import *
from treadle.dsl.operations.elements.gamma import *
from treadle.dsl.operations.elements.mapping import *
from treadle.dsl.operations.elements.numeric import *
from treadle.dsl.operations.elements.windows import *
from treadle.dsl.operations.indexing.editing import *
from treadle.dsl.operations.indexing.index_arrays import *
from treadle.dsl.operations.indexing.index_space import *
from treadle.dsl.operations.indexing.joining import *
from treadle.dsl.operations.indexing.making import *
from treadle.dsl.operations.indexing.permuting import *
from treadle.dsl.operations.indexing.rearranging import *
from treadle.dsl.operations.indexing.updating import *
from treadle.dsl.operations.queries import *
from treadle.dsl.operations.reducing.differences import *
from treadle.dsl.operations.reducing.folds import *
from treadle.dsl.operations.reducing.histograms import *
from treadle.dsl.operations.reducing.irregular import *
from treadle.dsl.operations.reducing.quantiles import *
from treadle.dsl.operations.reducing.recurrences import *
from treadle.dsl.operations.reducing.reductions import *
from treadle.dsl.operations.reducing.scans import *
from treadle.dsl.operations.reducing.searching import *
from treadle.dsl.operations.reducing.segments import *
from treadle.dsl.operations.reducing.sets import *
from treadle.dsl.operations.reducing.statistics import *
from treadle.dsl.operations.stencils import *
from treadle.dsl.operations.stencils import (
    constant_boundary as _constant_boundary,
    function_boundary as _function_boundary,
)
from treadle.dsl.process.configuration import config as config, precision as precision
from treadle.dsl.scalar import Scalar as Scalar
from treadle.dsl.types import *
from treadle.dsl.types import bool_ as _bool_
from treadle.skeletons import schedules as _schedules, simulator as simulator
from treadle.skeletons.products import (
    BilinearAlgorithm as BilinearAlgorithm,
    error_bound as error_bound,
)
from treadle.skeletons.simulator import Cache as Cache, simulate as simulate

__version__ = _VERSION
bool = _bool_
constant, function = _constant_boundary, _function_boundary
fft = _fourier
linalg = _linear_algebra
schedule = _schedules

_complete_methods(Array, globals())
_install(_Driver(_sys.modules[__name__]))


def __dir__() -> list[str]:
    folders = {"annotations", "backend", "driver", "dsl", "explore", "skeletons", "tuning"}
    public = (n for n in globals() if n not in folders and (not n.startswith("_") or n[1] == "_"))
    return sorted(public)


if not _TYPE_CHECKING:  # a misspelled name is an error there
    __all__ = [name for name in __dir__() if not name.startswith("_")]
    _PACKAGES = {"schedule": schedule, "simulator": simulator, "linalg": linalg, "random": random,
                 "fft": fft}  # fmt: skip

    def _answering(package: str) -> _Callable[[str], object]:
        """The `__getattr__` of a package, or of treadle (""): what is written instead."""
        own = _PACKAGES.get(package)

        def answer(name: str) -> object:
            if own is not None and name in __all__ and name != package:
                homes = [f"td.{name}"]
            else:
                homes = [
                    f"td.{other}.{name}" for other, m in _PACKAGES.items() if name in m.__all__
                ]
            known = own.__all__ if own is not None else [n for n in globals() if n[0] != "_"]
            if name[0] == "_":  # what tools ask of every module resembles nothing
                known = []
            raise _no_attribute(_missing(name, known, package, homes[:1]), name)

        return answer

    __getattr__ = _answering("")
    for _name in _PACKAGES:
        vars(_PACKAGES[_name])["__getattr__"] = _answering(_name)
