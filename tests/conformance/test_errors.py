"""A user's mistakes: the class, the text, the user's own line with a caret, what to write."""

from __future__ import annotations

import inspect
import math
import pickle
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import treadle as td

from .helpers import assert_same, backends_report

HERE = Path(__file__).name
SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()

CLASSES = {
    "ShapeError": ValueError,
    "DTypeError": TypeError,
    "IndexOutOfBounds": IndexError,
    "NestedParallelismError": TypeError,
    "TracingError": TypeError,
    "BackendUnavailable": RuntimeError,
    "DeviceOutOfMemory": MemoryError,
    "CompilationError": RuntimeError,
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    error = getattr(td, name)
    assert issubclass(error, td.TreadleError)
    assert issubclass(error, CLASSES[name])
    assert issubclass(td.TreadleError, Exception)


def here():
    """The line number of the caller."""
    return inspect.currentframe().f_back.f_lineno


def assert_points_at(error, line):
    """The message names this file and that line, and shows the line with a caret."""
    message = str(error.value)
    assert HERE in message, message
    assert re.search(rf"\b{line}\b", message), f"line {line} is not named:\n{message}"
    assert SOURCE[line - 1].strip() in message, f"the line is not shown:\n{message}"
    assert "^" in message, message


def assert_mentions(error, *words):
    message = str(error.value)
    missing = [str(word) for word in words if str(word) not in message]
    assert not missing, f"{missing} not in:\n{message}"


A = np.arange(5.0)
B = np.arange(4.0)
M = np.arange(12.0).reshape(3, 4)
UA, UM = td.use(A), td.use(M)


def plus(x, y):
    return x + y


# ---------------------------------------------------------------------------------------------
# Python's control flow on traced values


def test_if_on_a_scalar():
    with pytest.raises(td.TracingError) as error:
        line = here() + 1
        td.map(lambda v: 1 if v > 0 else 2, A)
    assert_points_at(error, line)
    assert_mentions(error, "td.where", "td.cond")


def test_if_statement_in_a_function():
    def relu(v):
        if v > 0:
            return v
        return 0.0

    line = inspect.getsourcelines(relu)[1] + 1
    with pytest.raises(td.TracingError) as error:
        td.map(relu, A)
    assert_points_at(error, line)
    assert_mentions(error, "td.where")


def test_while_on_a_scalar():
    def count(v):
        while v > 0:
            v = v - 1
        return v

    line = inspect.getsourcelines(count)[1] + 1
    with pytest.raises(td.TracingError) as error:
        td.map(count, A)
    assert_points_at(error, line)
    assert_mentions(error, "td.while_loop")


@pytest.mark.parametrize("word", ("and", "or", "not", "bool", "chained"))
def test_truth_of_a_scalar(word):
    functions = {
        "and": lambda v: td.where(v > 0 and v < 3, v, 0),
        "or": lambda v: td.where(v > 0 or v < -3, v, 0),
        "not": lambda v: td.where(not (v > 0), v, 0),
        "bool": lambda v: td.where(bool(v > 0), v, 0),
        "chained": lambda v: td.where(0 < v < 3, v, 0),
    }
    line = inspect.getsourcelines(functions[word])[1]
    with pytest.raises(td.TracingError) as error:
        td.map(functions[word], A)
    assert_points_at(error, line)
    assert_mentions(error, "td.where")


def test_if_on_an_index():
    with pytest.raises(td.TracingError) as error:
        line = here() + 1
        td.generate((5,), lambda i: 1.0 if i == 0 else 2.0)
    assert_points_at(error, line)


def test_if_inside_a_compiled_function():
    @td.jit
    def program(a):
        return td.map(lambda v: -v if v < 0 else v, a)

    with pytest.raises(td.TracingError) as error:
        program(A)
    line = next(k for k, text in enumerate(SOURCE, 1) if "-v if v < 0" in text and "td.map" in text)
    assert_points_at(error, line)


# ---------------------------------------------------------------------------------------------
# Nested parallelism


def test_collective_inside_a_scalar_function():
    with pytest.raises(td.NestedParallelismError) as error:
        outer = here() + 1
        td.map(  # the inner call is on the next line
            lambda v: td.sum(td.map(lambda w: w * v, B)), A
        )
    message = str(error.value)
    assert HERE in message, message
    places = [n for n in (outer, outer + 1) if re.search(rf"\b{n}\b", message)]
    assert places == [outer, outer + 1], f"both places are named:\n{message}"
    assert_points_at(error, outer + 1)
    assert "td." in message


def test_too_few_indices_inside_a_kernel():
    matrix = td.use(M)
    with pytest.raises(td.NestedParallelismError) as error:
        line = here() + 1
        td.generate((3,), lambda i: matrix[i])
    assert_points_at(error, line)


@pytest.mark.parametrize("operation", ("sum", "fold", "generate", "matmul", "stencil", "sort"))
def test_other_collectives_inside_a_kernel(operation):
    vector, matrix = td.use(A), td.use(M)
    inner = {
        "sum": lambda v: td.the(td.sum(vector * v)),
        "fold": lambda v: td.the(td.fold(plus, 0.0, td.map(lambda x: x * v, vector))),
        "generate": lambda v: td.the(td.generate((), lambda: v)),
        "matmul": lambda v: td.the(td.sum(td.matmul(matrix * v, matrix))),
        "stencil": lambda v: td.the(td.sum(td.stencil(lambda w: w[0] * v, vector))),
        "sort": lambda v: td.the(td.sort(vector + v)[0]),
    }[operation]
    with pytest.raises(td.NestedParallelismError):
        td.map(inner, A)


# ---------------------------------------------------------------------------------------------
# What functions may return


@pytest.mark.parametrize("kind", ("list", "none", "text", "array", "dict"))
def test_functions_that_return_something_else(kind):
    functions = {
        "list": lambda v: [v, v],
        "none": lambda v: None,
        "text": lambda v: "three",
        "array": lambda v: np.ones(3),
        "dict": lambda v: {"v": v},
    }
    with pytest.raises(td.TreadleError) as error:
        line = here() + 1
        td.map(functions[kind], A)
    assert isinstance(error.value, TypeError)
    message = str(error.value)
    assert HERE in message, message
    defined = inspect.getsourcelines(functions[kind])[1]
    assert any(re.search(rf"\b{n}\b", message) for n in (line, defined)), message
    assert "^" in message, message


def test_a_list_is_answered_with_a_tuple():
    with pytest.raises(td.TreadleError) as error:
        td.map(lambda v: [v, v], A)
    assert_mentions(error, "list", "tuple")


def test_wrong_number_of_parameters():
    for build in (
        lambda: td.map(lambda x, y: x + y, A),
        lambda: td.generate((3, 4), lambda i: i),
        lambda: td.fold(lambda x: x, 0.0, A),
        lambda: td.imap(lambda x: x, A),
    ):
        with pytest.raises(td.TreadleError) as error:
            build()
        assert isinstance(error.value, TypeError)
        assert HERE in str(error.value)


def test_loop_bodies_keep_the_type_of_the_state():
    with pytest.raises(td.DTypeError) as error:
        line = here() + 1
        td.map(lambda x: td.iterate(3, lambda s: s * 0.5, 1), A)
    assert_points_at(error, line)
    assert_mentions(error, "int64", "float64")
    with pytest.raises(td.DTypeError):
        td.iterate(3, lambda s: s * 0.5, td.use(np.arange(3)))
    with pytest.raises(td.DTypeError):
        td.while_loop(lambda s: td.sum(s[0]) < 3, lambda s: s[0], (td.use(A), td.unit(0)))


def test_array_loops_keep_the_rank_of_the_state(run):
    assert run(td.iterate(3, lambda s: s[1:], td.use(A))).tolist() == A[3:].tolist()
    with pytest.raises((td.ShapeError, td.DTypeError)):
        run(td.iterate(3, lambda s: td.stack([s, s]), td.use(A)))


# ---------------------------------------------------------------------------------------------
# Shapes


def test_map_of_unequal_shapes():
    with pytest.raises(td.ShapeError) as error:
        line = here() + 1
        td.map(lambda x, y: x + y, A, B)
    assert_points_at(error, line)
    assert_mentions(error, "map", 5, 4)


def test_operators_that_do_not_broadcast():
    with pytest.raises(td.ShapeError) as error:
        line = here() + 1
        td.use(A) + td.use(B)
    assert_points_at(error, line)
    assert_mentions(error, 5, 4)


SHAPE_MISTAKES = {
    "zip": lambda: td.zip(A, B),
    "imap": lambda: td.imap(lambda i, x, y: x, A, B),
    "matmul": lambda: td.matmul(M, M),
    "matmul operator": lambda: td.use(M) @ td.use(M),
    "strassen": lambda: td.strassen(M, M),
    "dot": lambda: td.dot(A, B),
    "matmul c": lambda: td.matmul(M, M.T, beta=1, c=np.zeros((3, 4))),
    "reshape": lambda: td.reshape(M, (5, 2)),
    "reshape -1": lambda: td.reshape(M, (5, -1)),
    "broadcast_to": lambda: td.broadcast_to(A, (3, 4)),
    "concatenate": lambda: td.concatenate([M, M.T]),
    "concatenate ranks": lambda: td.concatenate([M, A]),
    "stack": lambda: td.stack([A, B]),
    "stencil": lambda: td.stencil(lambda u, v: u[0] + v[0], A, B),
    "where": lambda: td.where(A > 0, A, B),
    "compact": lambda: td.compact(np.ones(4, bool), A),
    "fold1": lambda: td.fold1(plus, np.zeros(0)),
    "fold1 of rows": lambda: td.fold1(plus, np.zeros((3, 0))),
    "min of nothing": lambda: td.min(np.zeros(0)),
    "max of nothing": lambda: td.max(np.zeros((3, 0)), axis=1),
    "argmin of nothing": lambda: td.argmin(np.zeros(0)),
    "fold_seg sum": lambda: td.fold_seg(plus, 0.0, A, np.array([2, 2])),
    "fold_seg too long": lambda: td.fold_seg(plus, 0.0, A, np.array([2, 4])),
    "fold_seg negative": lambda: td.fold_seg(plus, 0.0, A, np.array([7, -2])),
    "scanl_seg sum": lambda: td.scanl_seg(plus, 0.0, A, np.array([2, 2])),
    "scanr1_seg negative": lambda: td.scanr1_seg(plus, A, np.array([-1, 6])),
}


@pytest.mark.parametrize("label", SHAPE_MISTAKES)
def test_shape_mistakes(run, label):
    """Raised when the expression is built or run; the message points into this file."""
    with pytest.raises(td.ShapeError) as error:
        run(SHAPE_MISTAKES[label]())
    line = next(k for k, text in enumerate(SOURCE, 1) if text.startswith(f'    "{label}": '))
    assert_points_at(error, line)


def test_known_extents_are_checked_when_the_expression_is_built():
    for label in ("zip", "matmul", "reshape", "concatenate", "stencil", "fold1", "where"):
        with pytest.raises(td.ShapeError):
            SHAPE_MISTAKES[label]()


def test_run_time_extents_are_checked_before_results(backend):
    programs = {
        "map": lambda a, b: td.map(lambda x, y: x + y, a, b),
        "+": lambda a, b: a + b,
        "zip": lambda a, b: td.zip(a, b),
        "dot": lambda a, b: td.dot(a, b),
        "fused reshape": lambda a, b: td.sum(td.reshape(td.map(lambda x: x * 2, a), (2, 2))) + b,
        "stack": lambda a, b: td.stack([a, b]),
        "where": lambda a, b: td.where(a > 0, a, b),
        "broadcast_to": lambda a, b: td.broadcast_to(a, (3, 4)) + b,
    }
    for label, function in programs.items():
        compiled = td.jit(function, backend=backend)
        assert compiled(B, B) is not None
        with pytest.raises(td.ShapeError) as error:
            compiled(A, B)
        assert HERE in str(error.value), f"{label}: {error.value}"
        assert compiled(B, B) is not None, "the program stays usable"


def test_a_fused_reshape_is_checked(run):
    with pytest.raises(td.ShapeError):
        run(td.sum(td.reshape(td.map(lambda x: x * 2, A), (2, 3))))
    with pytest.raises(td.ShapeError):
        run(td.reshape(td.filter(lambda x: x > 1, A)[0], (2, 2)))


def test_computed_lengths_are_checked_before_results(backend):
    @td.jit(backend=backend)
    def program(a, lengths):
        return td.fold_seg(plus, 0.0, a, lengths), td.scanl1_seg(plus, a, lengths)

    assert_same(program(A, np.array([2, 3]))[0], np.array([1.0, 9.0]))
    for lengths in ([2, 2], [2, 4], [6, -1], []):
        with pytest.raises(td.ShapeError) as error:
            program(A, np.array(lengths, "i8"))
        assert HERE in str(error.value)
    with pytest.raises(td.ShapeError):
        program(A[:0], np.array([1]))
    with pytest.raises(td.ShapeError):
        td.run(
            td.fold_seg(plus, 0.0, A, td.map(lambda n: n + 1, np.array([2, 3]))), backend=backend
        )


def test_empty_axes_at_run_time(backend):
    program = td.jit(lambda a: td.fold1(plus, a), backend=backend)
    least = td.jit(lambda a: td.min(a), backend=backend)
    assert_same(program(A), np.array(10.0))
    for compiled in (program, least):
        with pytest.raises(td.ShapeError) as error:
            compiled(A[:0])
        assert HERE in str(error.value)


def test_extents_are_not_negative(backend):
    """Also those computed at run time, whatever reads the array; nothing where none is read."""
    programs = {
        "fill": lambda n: td.fill((n - 3,), 1.0),
        "generate": lambda n: td.sum(td.generate((2, n), lambda i, j: i + j)),
        "iota": lambda n: td.iota(n) + 1,
        "linspace": lambda n: td.linspace(0, 1, n),
        "eye": lambda n: td.eye(n),
        "replicate": lambda n: td.replicate(A, n),
        "broadcast_to": lambda n: td.broadcast_to(A, (n, 5)),
        "backpermute": lambda n: td.backpermute((n,), lambda i: i, A),
        "reshape": lambda n: td.reshape(A, (-1, n)),
        "bincount": lambda n: td.bincount(np.array([0, 1]), length=n),
        "a counted extent": lambda n: td.fill((td.the(td.unit(n)),), 1.0),
        "in a loop": lambda n: td.loop(
            2, lambda k, s: s + td.sum(td.fill((k + n,), 1.0)), td.unit(0.0)
        ),
    }
    for function in programs.values():
        with pytest.raises(td.ShapeError) as error:
            td.jit(function, backend=backend)(-2)
        assert_mentions(error, "negative", HERE)
    chosen = td.jit(
        lambda n: td.cond(n > 0, td.sum(td.fill((n,), 1.0)), td.unit(7.0)), backend=backend
    )
    assert_same(chosen(-2), np.array(7.0))
    rows = td.use(np.ones((2, 3)))
    for build in (
        lambda: td.fill((3, -1), 0),
        lambda: td.generate((rows.shape[0] - 3,), lambda i: i),
        lambda: td.reshape(A, (-2, -2)),
    ):
        with pytest.raises(td.ShapeError, match="negative"):
            build()


def test_loops_without_a_turn_are_checked(backend):
    """What is wrong in a body is an error before the first kernel: there need be no iteration."""
    nothing = np.zeros(0)
    empty = "empty axis"
    for program, words in (
        (lambda n, x: td.loop(n, lambda k, s: s + td.max(x), td.unit(0.0)), empty),
        (lambda n, x: td.while_loop(lambda s: s < n, lambda s: s + td.max(x), td.unit(0.0)), empty),
        (lambda n, x: td.iterate(n, lambda s: s + td.sum(td.reshape(x, (2, 2))), td.unit(0.0)),
         "do not fit"),
        (lambda n, x: td.loop(n, lambda k, s: td.iterate(n, lambda t: t + td.max(x), s),
                              td.unit(0.0)), empty),
        (lambda n, x: td.loop(n, lambda k, s: s + td.sum(td.fold_seg(plus, 0.0, x, [2, 1])),
                              td.unit(0.0)), "lengths sum to 3"),
    ):  # fmt: skip
        with pytest.raises(td.ShapeError, match=words):
            td.jit(program, backend=backend)(0, nothing)
    aside = td.jit(lambda n, x: td.cond(n > 0, td.iterate(n, lambda s: s + td.max(x), td.unit(0.0)),
                                        td.unit(3.0)), backend=backend)  # fmt: skip
    assert_same(aside(0, nothing), np.array(3.0))


AXIS_MISTAKES = {
    "fold": lambda: td.fold(plus, 0.0, M, axis=2),
    "sum": lambda: td.sum(M, axis=-3),
    "argmax": lambda: td.argmax(M, axis=5),
    "scanl": lambda: td.scanl(plus, 0.0, M, axis=2),
    "cumsum": lambda: td.cumsum(M, axis=2),
    "reverse": lambda: td.reverse(M, 2),
    "take": lambda: td.take(M, np.array([0]), axis=2),
    "concatenate": lambda: td.concatenate([M, M], axis=2),
    "transpose": lambda: td.transpose(M, (0, 0)),
    "transpose length": lambda: td.transpose(M, (0, 1, 2)),
    "sort": lambda: td.sort(M, axis=2),
    "replicate": lambda: td.replicate(M, 3, 4),
    "a repeated axis": lambda: td.sum(M, axis=(0, 0)),
    "roll": lambda: td.roll(M, 1, axis=2),
}


@pytest.mark.parametrize("label", AXIS_MISTAKES)
def test_axis_mistakes(label):
    with pytest.raises(td.TreadleError) as error:
        AXIS_MISTAKES[label]()
    assert isinstance(error.value, (ValueError, IndexError)), type(error.value)
    assert HERE in str(error.value)
    assert "axis" in str(error.value) or "axes" in str(error.value)


RANK_MISTAKES = {
    "too many indices": lambda: td.use(M)[0, 0, 0],
    "an index beyond": lambda: td.use(M)[3],
    "an index before": lambda: td.use(A)[-6],
    "too many inside": lambda: td.generate((2,), lambda i: UM[i, i, i]),
}


@pytest.mark.parametrize("label", RANK_MISTAKES)
def test_rank_and_index_mistakes_outside_kernels(run, label):
    with pytest.raises(td.TreadleError) as error:
        run(RANK_MISTAKES[label](), check=True)
    assert isinstance(error.value, (IndexError, ValueError, TypeError))
    assert HERE in str(error.value)


# ---------------------------------------------------------------------------------------------
# Types

TYPE_MISTAKES = {
    "& of floats": lambda: td.use(A) & td.use(A),
    "<< of floats": lambda: td.map(lambda x: x << 1, A),
    "~ of floats": lambda: ~td.use(A),
    "bitwise_xor": lambda: td.bitwise_xor(A, A),
    "floor of complex": lambda: td.floor(A + 1j),
    "% of complex": lambda: td.use(A + 1j) % 2,
    "a float as an index": lambda: td.map(lambda x: UA[x], A),
    "float indices": lambda: td.take(A, A, axis=0),
    "float lengths": lambda: td.fold_seg(plus, 0.0, A, A),
    "float targets": lambda: td.permute(plus, A, lambda i: i * 0.5, A),
    "target of the wrong rank": lambda: td.permute(plus, M, lambda i: i, A),
    "fold of another type": lambda: td.fold(lambda x, y: (x, y), 0.0, A),
    "cond of tuple and scalar": lambda: td.map(lambda x: td.cond(x > 0, (x, x), x), A),
    "strings": lambda: td.use(np.array(["a", "b"])),
    "objects": lambda: td.use(np.array([object()])),
    "dates": lambda: td.use(np.array(["2020-01-01"], "M8[D]")),
    "no function": lambda: td.map(3, A),
    "an unknown dtype": lambda: td.cast(A, "no_such_type"),
}


@pytest.mark.parametrize("label", TYPE_MISTAKES)
def test_type_mistakes(label):
    with pytest.raises(td.TreadleError) as error:
        TYPE_MISTAKES[label]()
    assert isinstance(error.value, (TypeError, ValueError)), type(error.value)
    assert HERE in str(error.value)


def test_bitwise_operations_of_floats_are_dtype_errors():
    with pytest.raises(td.DTypeError) as error:
        line = here() + 1
        td.use(A) & td.use(A)
    assert_points_at(error, line)
    assert_mentions(error, "float64")


# ---------------------------------------------------------------------------------------------
# Checked mode

TABLE = td.use(np.arange(10.0))
GRID = td.use(np.arange(12.0).reshape(3, 4))

# label: (expression, index and extent that the message names)
OUT_OF_RANGE = {
    "above": (lambda: td.generate((5,), lambda i: TABLE[i + 8]), (10, 10)),
    "below": (lambda: td.generate((5,), lambda i: TABLE[i - 1]), (-1, 10)),
    "second axis": (lambda: td.generate((3,), lambda i: GRID[i, i + 2]), (4, 4)),
    "data-dependent": (lambda: td.map(lambda k: TABLE[k], np.array([3, 77, 2])), (77, 10)),
    "fused into a fold": (lambda: td.sum(td.generate((11,), lambda i: TABLE[i] * 2)), (10, 10)),
    "backpermute": (lambda: td.backpermute((4,), lambda i: i + 7, TABLE), (10, 10)),
    "gather": (lambda: td.gather(TABLE, np.array([0, 12])), (12, 10)),
    "take": (lambda: td.take(GRID, np.array([0, 5]), axis=1), (5, 4)),
    "permute": (lambda: td.permute(plus, np.zeros(4), lambda i: i, np.ones(6)), (4, 4)),
    "permute below": (lambda: td.permute(plus, np.zeros(4), lambda i: i - 2, np.ones(3)), (-2, 4)),
    "scatter": (lambda: td.scatter(np.zeros(4), np.array([1, 9]), np.ones(2)), (9, 4)),
    "of an empty array": (lambda: empty_read(), (0, 0)),
    "in a loop": (
        lambda: td.generate((1,), lambda i: td.loop(11, lambda k, s: s + TABLE[k], 0.0)),
        (10, 10),
    ),
}


def empty_read():
    nothing = td.use(np.zeros(0))
    return td.generate((1,), lambda i: nothing[i])


@pytest.mark.parametrize("label", OUT_OF_RANGE)
def test_out_of_range_indices_in_checked_mode(run, label):
    build, numbers = OUT_OF_RANGE[label]
    with pytest.raises(td.IndexOutOfBounds) as error:
        run(build(), check=True)
    assert_mentions(error, *numbers)
    assert HERE in str(error.value)
    assert "^" in str(error.value)


def test_the_message_of_checked_mode_names_the_operation(run):
    with pytest.raises(td.IndexOutOfBounds) as error:
        run(td.permute(plus, np.zeros(4), lambda i: i + 1, np.ones(4)), check=True)
    assert_mentions(error, "permute", 4)
    with pytest.raises(td.IndexOutOfBounds) as error:
        run(td.generate((5,), lambda i: TABLE[i + 8]), check=True)
    assert_mentions(error, "generate")


def test_checked_runs_of_right_programs(check):
    """In checked mode, right programs mean the same, and a failed run leaves the next alone."""
    grid = np.arange(12.0).reshape(3, 4)
    check(
        {
            "gather": (lambda: td.generate((4, 3), lambda i, j: GRID[j, i]), grid.T),
            "permute": (
                lambda: td.permute(plus, np.zeros(4), lambda i: i % 4, np.ones(9)),
                np.array([3.0, 2, 2, 2]),
            ),
            "ignored": (
                lambda: td.permute(
                    plus, np.zeros(4), lambda i: td.where(i < 4, i, td.ignore), np.ones(9)
                ),
                np.ones(4),
            ),
            "stencil": (
                lambda: td.stencil(lambda w: w[-7, 7], grid, boundary=td.wrap),
                np.roll(grid, (7, -7), (0, 1)),
            ),
            "slices": (lambda: GRID[::-1, 1:100], grid[::-1, 1:]),
        },
        check=True,
    )


def test_checked_compiled_functions(backend):
    @td.jit(backend=backend)
    def program(a, indices):
        return td.gather(a, indices) + 1

    good, bad = np.array([0, 4]), np.array([0, 5])
    with td.config(check=True):
        assert_same(program(A, good), A[good] + 1)
        with pytest.raises(td.IndexOutOfBounds):
            program(A, bad)
        assert_same(program(A, good), A[good] + 1)


# ---------------------------------------------------------------------------------------------
# Backends and memory


def test_an_unknown_backend():
    with pytest.raises(td.BackendUnavailable) as error:
        td.run(td.use(A) + 1, backend="abacus")
    assert_mentions(error, "abacus", "reference", "native")
    with pytest.raises(td.BackendUnavailable):
        td.jit(lambda a: a + 1, backend="abacus")(A)


def test_a_missing_backend():
    missing = [name for name, works in backends_report().items() if not works]
    for name in missing:
        with pytest.raises(td.BackendUnavailable) as error:
            td.run(td.use(A) + 1, backend=name)
        assert_mentions(error, name)
        assert len(str(error.value)) > len(name) + 20, "says why, and what to install"


def test_no_memory(run):
    huge = td.fill((1 << 45,), 1.0) + td.iota(1 << 45)
    with pytest.raises((td.DeviceOutOfMemory, td.MemoryLimitExceeded)) as error:
        run(huge)
    assert re.search(r"\d", str(error.value)), "says how much was asked for"
    assert_same(run(td.use(A) + 1), A + 1)


def test_no_memory_beyond_any_address(run, emulated):
    """More bytes than can be counted are an error of treadle's too."""
    if emulated is not None:
        pytest.skip("the memory of the emulated GPU is NumPy's")
    for shape in ((2**40, 2**40), (2**63 - 1,), (2**62, 1)):
        with pytest.raises((td.DeviceOutOfMemory, td.MemoryLimitExceeded)) as error:
            run(td.zeros(shape, td.int8) + td.int8(1))
        if error.type is td.DeviceOutOfMemory:  # on several GPUs: a block is too large
            assert_mentions(error, str(shape), f"{math.prod(shape):,} bytes")
    with pytest.raises(td.ShapeError, match="no array has the shape"):
        run(td.zeros((0, 2**40, 2**40)))  # NumPy counts the axes that are not empty


def test_extents_beyond_any_number_are_no_memory(run, emulated):
    """Sums and products of extents never wrap into the extents of a small array."""
    if emulated is not None:
        pytest.skip("the memory of the emulated GPU is NumPy's")
    long = td.zeros(1 << 62, td.int8)
    for build in (
        lambda: td.concatenate([long] * 2),
        lambda: td.concatenate([long] * 5),
        lambda: td.pad(long, 1 << 62),
        lambda: td.flatten(td.zeros((1 << 32, 1 << 32))),
        lambda: td.scanl(td.maximum, 0, td.zeros(2**63 - 1, td.int64)),
    ):
        with pytest.raises(td.DeviceOutOfMemory):
            run(build())


# ---------------------------------------------------------------------------------------------
# The form of all messages


def test_no_internal_traceback_ends_a_mistake():
    """What a user sees last is the message, not a chain of our own exceptions."""
    for build in (
        lambda: td.map(lambda v: 1 if v > 0 else 2, A),
        lambda: td.map(lambda x, y: x + y, A, B),
        lambda: td.matmul(M, M),
        lambda: td.use(A) & td.use(A),
        lambda: td.sum(M, axis=7),
        lambda: td.map(lambda v: [v], A),
    ):
        with pytest.raises(td.TreadleError) as error:
            build()
        shown = error.value.__cause__
        if not error.value.__suppress_context__:
            shown = shown or error.value.__context__
        assert shown is None, repr(shown)


def test_operators_and_methods_end_in_the_users_line():
    """One frame of ours at most, the one that hands the error over."""
    root = Path(td.__file__).resolve().parent.parent
    used = td.use(A)
    for build in (
        lambda: used + B, lambda: td.use(np.zeros(3, np.int8)) + 300, lambda: used < B,
        lambda: used[1, 2], lambda: used[99], lambda: used.reshape(7), lambda: used.astype("x"),
        lambda: td.use(M) @ M, lambda: td.int32("a"), lambda: td.use(object()), lambda: bool(used),
        lambda: td.schedule.Column(0), lambda: td.schedule.Row() | td.schedule.Column(3),
    ):  # fmt: skip
        with pytest.raises(td.TreadleError) as error:
            build()
        files = [Path(f.filename) for f in traceback.extract_tb(error.value.__traceback__)]
        ours = [f for f in files if root in f.parents and f.name != HERE]
        assert len(ours) <= 1, ours


def test_errors_are_of_the_kinds_that_numpy_raises():
    for build in (lambda: td.use(A)[0, 0], lambda: td.sum(A, axis=4)):
        for kind in (IndexError, ValueError, td.ShapeError):
            with pytest.raises(kind):
                build()
    for kind in (OSError, ValueError, td.StorageError):
        with pytest.raises(kind, match="No such file"):
            td.load("/nowhere")
    with pytest.raises(td.DTypeError, match="float64"):
        td.matmul(np.eye(2), np.eye(2), precision="tf32")


def test_errors_travel_to_other_processes():
    """As a pool of processes sends them: class, text, place and code."""
    for build in (
        lambda: td.map(lambda x, y: x + y, A, B),
        lambda: td.generate(3, lambda i: td.sum(td.use(A))),
        lambda: td.schedule.Column("x"),
    ):
        with pytest.raises(td.TreadleError) as error:
            build()
        there = pickle.loads(pickle.dumps(error.value))
        assert type(there) is type(error.value)
        assert str(pickle.loads(pickle.dumps(there))) == str(error.value)
    refused = pickle.loads(pickle.dumps(td.CompilationError("no", source="x", log="y")))
    assert (refused.source, refused.log) == ("x", "y")


def test_the_caret_stands_under_the_line():
    with pytest.raises(td.ShapeError) as error:
        td.map(lambda x, y: x + y, A, B)
    lines = str(error.value).splitlines()
    shown = next(k for k, text in enumerate(lines) if "td.map(lambda x, y: x + y, A, B)" in text)
    caret = next(text for text in lines[shown + 1 :] if "^" in text)
    column = caret.index("^")
    assert column >= lines[shown].index("td.map"), str(error.value)
    assert column < len(lines[shown]), str(error.value)


def test_errors_are_ordinary_exceptions_afterwards(run):
    """A failed trace leaves nothing behind."""
    for _ in range(3):
        with pytest.raises(td.TracingError):
            td.map(lambda v: 1 if v > 0 else 2, A)
        with pytest.raises(td.NestedParallelismError):
            td.map(lambda v: td.sum(td.map(lambda w: w * v, B)), A)
    assert_same(run(td.sum(td.map(lambda v: v * 2, A))), np.array(20.0))


# --- what people write first ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: td.map(lambda x: x > 1 & x, A), ("(a > 1) & (b < 2)",)),
        (lambda: td.iterate(3, lambda x, y: x + y, (A, A)),
         ("the body of iterate is called with state, but takes (x, y)", "x, y = state")),
        (lambda: td.while_loop(lambda x, y: x < 9, lambda s: s, (0, 1)), ("the predicate of",)),
        (lambda: td.loop(3, lambda s: s + 1, A), ("called with k and state", "takes (s)")),
        (lambda: td.stencil(lambda w: np.sum(w), A), ("NumPy's functions", "sum(w[i, j]")),
        (lambda: td.stencil(lambda w: sum(w), A), ("cannot be iterated", "sum(w[i, j]")),
        (lambda: td.map(lambda x: max(x, 1), A), ("td.maximum(a, b)",)),
    ],
)  # fmt: skip
def test_first_mistakes(write, words):
    with pytest.raises(td.TreadleError) as error:
        write()
    assert_mentions(error, *words)
    assert_points_at(error, error.value.where.line)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: td.stencil(lambda w: w[0], A, boundry=td.wrap),
         ("stencil has no argument 'boundry'.", "Did you mean boundary?", "f, a, *more, boundary")),
        (lambda: td.run(td.iota(3), chek=True), ("run has no argument 'chek'.", "mean check?")),
        (lambda: td.sum(A, axes=0), ("sum has no argument 'axes'.", "mean axis?", "schedule")),
        (lambda: td.use(A).sum(axes=0), ("sum has no argument 'axes'.", "axis, keepdims.")),
        (lambda: td.matmul(M, M, algoritm="strassen"), ("matmul has no", "mean algorithm?")),
        (lambda: td.jit(abs, fastmath=True), ("jit has no argument", "mean fast_math?")),
        (lambda: td.precision(fats=True), ("precision has no argument 'fats'.", "mean fast?")),
        (lambda: td.jit(lambda x, scale: x * scale)(A, scael=2.0),
         ("<lambda> has no argument 'scael'.", "mean scale?", "Its arguments: x, scale.")),
        (lambda: td.iota(3, quantity=1), ("iota has no argument 'quantity'.", "Its arguments: n,")),
    ],
)  # fmt: skip
def test_misspelt_arguments(write, words):
    with pytest.raises(td.TracingError) as error:
        write()
    assert_mentions(error, *words)
    assert_points_at(error, error.value.where.line)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: td.fold(plus, A), "fold(f, init, a, axis)"),
        (lambda: td.sum(), "sum(a, axis, keepdims)"),
        (lambda: td.exp(1, 2), "exp(x)"),
        (lambda: td.use(A).sum(0, True, 3), "sum(axis, keepdims)"),
        (lambda: td.run(td.use(A), "native"), "by name: backend=…"),
        (lambda: td.jit(plus, "native"), "by name: backend=…"),
        (lambda: td.config("native"), "by name: backend=…"),
        (lambda: td.config(backend="nativ"), "Did you mean native?"),
        (lambda: td.jit(plus, backend="numpy"), "Backends here: 'reference', 'native'"),
        (lambda: td.foreign_array({"nativ": np.sort}, A, fallback=td.sort), "Did you mean native?"),
        (lambda: td.arange(0, 1, 0), "the step is 0"),
        (lambda: td.load(3), "path of a file"),
        (lambda: td.jit(lambda: td.iota(3)).lower().save(), "save(path)"),
        (lambda: td.jit(lambda: td.iota(3)).lower().save(3), "path of a file"),
        (lambda: td.int8(300), "does not fit in int8"),
    ],
)
def test_arguments_that_cannot_be(write, words):
    """Too few, too many, of no meaning: the error says the form, at the user's line."""
    with pytest.raises(td.TreadleError) as error:
        write()
    assert_mentions(error, words, HERE)
    with pytest.raises(TypeError, match="NoneType"):  # what the user's own function raises stays
        td.map(lambda x: x + None, A)


def test_misspelt_settings():
    with pytest.raises(td.TracingError) as error, td.config(chek=True):
        pass
    assert_mentions(error, "config has no argument 'chek'.", "Did you mean check?", "recognise")


def test_an_array_without_a_name_is_called_by_its_place(run):
    """Two arrays of one kernel are distinguished in checked mode."""
    first = td.use(np.arange(5.0))
    line = here() + 1
    second = td.use(np.arange(3.0))
    with td.config(check=True), pytest.raises(td.IndexOutOfBounds) as error:
        run(td.generate((5,), lambda i: first[i] + second[i]))
    words = f"out of range for axis 0 of the array used at {HERE}:{line}, which has extent 3."
    assert_mentions(error, words)


def test_an_array_used_in_two_places_is_called_by_none(run):
    """No line is named that may have nothing to do with the program."""
    data = np.arange(3.0)
    elsewhere = td.use(data)
    again = td.use(data)
    with td.config(check=True), pytest.raises(td.IndexOutOfBounds) as error:
        run(td.map(lambda k: again[k], np.array([9])))
    assert_mentions(error, "index 9 is out of range for axis 0 of an array, which has extent 3.")
    del elsewhere


def test_operands_of_products_are_checked_too(backend):
    """Also those that a library or a tile engine would read by strides."""
    v, a = td.use(np.arange(5.0)), np.ones((3, 4))
    for build in (
        lambda: td.generate((2, 3), lambda i, j: v[i + 4 * j]) @ a,
        lambda: td.maximum(td.backpermute((2, 3), lambda i, j: i + 4 * j, v) @ a, 0.0),
        lambda: td.strassen(a, td.backpermute((4, 2), lambda i, j: 2 * i + j, v)),
    ):
        with pytest.raises(td.IndexOutOfBounds):
            td.run(build(), backend=backend, check=True)
    fine = td.backpermute((2, 3), lambda i, j: i + j, v) @ a
    assert_same(td.run(fine, backend=backend, check=True), td.run(fine, backend="reference"))
