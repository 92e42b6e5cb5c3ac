"""Late binding: lets a module use names from modules that depend on it.

For example, methods of `Array` call functions of modules that import `Array`.  Such a name is
looked up at each use (`later.matmul`); its module offers it when `import treadle` imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import simplify
    from .array import Array as Array
    from .frontend import call_cache as call_cache, deferred as deferred, evaluation
    from .frontend.sources import (
        as_array as as_array,
        is_arraylike as is_arraylike,
        is_rows as is_rows,
        owned as owned,
    )
    from .frontend.suggestions import instead_of_keyword as instead_of_keyword
    from .graphs import names, printer
    from .operations import fourier
    from .operations.algebra.products import dot as dot, matmul as matmul
    from .operations.common import relabel as relabel
    from .operations.elements import functions as functions
    from .operations.elements.functions import (
        cast as cast,
        clip as clip,
        power as power,
        round as round,
    )
    from .operations.elements.lifting import elementwise as elementwise
    from .operations.elements.mapping import (
        unzip_flat as unzip_flat,
        zip as zip,
        zip_like as zip_like,
    )
    from .operations.indexing import row_major
    from .operations.indexing.index_space import (
        flatten as flatten,
        read_window as read_window,
        reshape as reshape,
        slice_array as slice_array,
        transpose as transpose,
        window_of as window_of,
    )
    from .operations.indexing.joining import stack as stack
    from .operations.indexing.making import unit as unit
    from .operations.indexing.rearranging import unstack as unstack
    from .operations.indexing.updating import At as At
    from .operations.reducing import reductions as reductions
    from .operations.reducing.irregular import chosen as chosen
    from .operations.reducing.quantiles import nonzero as nonzero
    from .operations.stencils import (
        BoundaryCondition as BoundaryCondition,
        with_edges_of_numpy as with_edges_of_numpy,
    )
    from .scalar import (
        Scalar as Scalar,
        lift as lift,
        refuse_argument as refuse_argument,
        typed_scalar as typed_scalar,
    )

    computed, evaluate_extent, fft = evaluation, names.evaluate, fourier
    product_of = row_major.product
    show_expression, simplified_apply = printer.show, simplify.reapply
    add, subtract, multiply = simplify.add, simplify.subtract, simplify.multiply
    floor_divide, remainder = simplify.floor_divide, simplify.remainder


def offer(**named: Any) -> None:
    """Bind names."""
    globals().update(named)
