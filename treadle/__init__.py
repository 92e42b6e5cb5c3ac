"""treadle: a purely functional array language for Python, compiled for CPUs and GPUs.

    import treadle as td

Programs build typed expressions, which are computed when `td.run` or a function compiled by
`td.jit` is called.  The same program has the same meaning on every backend.
"""

from __future__ import annotations

import os as _os
import sys as _sys

if not _os.path.isdir(_os.path.join(_os.path.dirname(__file__), "dsl")):
    # In a checkout on a file system without symbolic links, the folders are siblings of this one.
    __path__.append(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))))

from treadle.backend.registry import backends
from treadle.driver.evaluator import Driver as _Driver
from treadle.driver.jit import jit, run
from treadle.driver.program import Program, load
from treadle.driver.streaming import stream
from treadle.dsl import VERSION as _VERSION
from treadle.dsl.array import Array
from treadle.dsl.autodiff import *
from treadle.dsl.errors import (
    AxisError,
    BackendUnavailable,
    CompilationError,
    DeviceOutOfMemory,
    DistributionError,
    DTypeError,
    ExponentError,
    GradientError,
    IndexOutOfBounds,
    LinAlgError,
    MemoryLimitExceeded,
    NestedParallelismError,
    ScheduleError,
    ShapeError,
    StorageError,
    TracingError,
    TreadleError,
)
from treadle.dsl.errors import no_attribute as _no_attribute
from treadle.dsl.evaluator import install as _install
from treadle.dsl.frontend.sources import use
from treadle.dsl.frontend.standard import *
from treadle.dsl.frontend.suggestions import missing as _missing
from treadle.dsl.operations import fourier as fft
from treadle.dsl.operations import linear_algebra as linalg
from treadle.dsl.operations import random
from treadle.dsl.operations.bits import *
from treadle.dsl.operations.contraction import *
from treadle.dsl.operations.control import *
from treadle.dsl.operations.differences import *
from treadle.dsl.operations.editing import *
from treadle.dsl.operations.elementwise import *
from treadle.dsl.operations.folds import *
from treadle.dsl.operations.foreign import *
from treadle.dsl.operations.functions import *
from treadle.dsl.operations.functions import ignore
from treadle.dsl.operations.histograms import *
from treadle.dsl.operations.index_arrays import *
from treadle.dsl.operations.index_space import *
from treadle.dsl.operations.irregular import *
from treadle.dsl.operations.joining import *
from treadle.dsl.operations.linalg import *
from treadle.dsl.operations.making import *
from treadle.dsl.operations.matrices import *
from treadle.dsl.operations.numeric import *
from treadle.dsl.operations.permuting import *
from treadle.dsl.operations.polynomials import *
from treadle.dsl.operations.quantiles import *
from treadle.dsl.operations.queries import *
from treadle.dsl.operations.rearranging import *
from treadle.dsl.operations.recurrences import *
from treadle.dsl.operations.reductions import *
from treadle.dsl.operations.scans import *
from treadle.dsl.operations.searching import *
from treadle.dsl.operations.segments import *
from treadle.dsl.operations.sets import *
from treadle.dsl.operations.statistics import *
from treadle.dsl.operations.stencils import *
from treadle.dsl.operations.stencils import constant_boundary as constant
from treadle.dsl.operations.stencils import function_boundary as function
from treadle.dsl.operations.updating import *
from treadle.dsl.operations.windows import *
from treadle.dsl.process.configuration import config, precision
from treadle.dsl.scalar import Scalar
from treadle.dsl.types import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from treadle.dsl.types import bool_ as bool
from treadle.skeletons import schedules as schedule
from treadle.skeletons import simulator
from treadle.skeletons.products import BilinearAlgorithm, error_bound
from treadle.skeletons.simulator import Cache, simulate

__version__ = _VERSION

_install(_Driver(_sys.modules[__name__]))


def __dir__() -> list[str]:
    folders = {"annotations", "backend", "driver", "dsl", "explore", "skeletons", "tuning"}
    public = (n for n in globals() if n not in folders and (not n.startswith("_") or n[1] == "_"))
    return sorted(public)


def __getattr__(name: str) -> object:
    packages = {"schedule": schedule, "simulator": simulator, "linalg": linalg, "random": random,
                "fft": fft}  # fmt: skip
    for module, package in packages.items():
        if name in package.__all__:
            raise _no_attribute(f"treadle has no {name!r}: td.{module}.{name}.", name)
    known = [n for n in globals() if not n.startswith("_")]
    raise _no_attribute(_missing(name, known), name)
