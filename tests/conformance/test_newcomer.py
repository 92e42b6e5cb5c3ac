"""What a first user broke: kept here so that it stays mended."""

import collections
import copy
import pickle
import re
import traceback
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import treadle as td
from treadle.dsl.frontend import suggestions
from treadle.dsl.process import environment


def layouts():
    base = np.arange(12.0)
    return {
        "fortran": np.asfortranarray(base.reshape(3, 4)),
        "transposed": base.reshape(4, 3).T,
        "backwards": base[::-2],
        "columns": base.reshape(3, 4)[:, ::2],
        "broadcast": np.broadcast_to(base[:3, None], (3, 2)),
    }


@pytest.mark.parametrize("layout", layouts())
def test_any_layout_may_be_the_state_of_a_loop(run, layout):
    a = layouts()[layout]
    x = td.use(a)
    twice = run(td.iterate(2, lambda s: s * 2, x))
    np.testing.assert_array_equal(twice, a * 4)
    np.testing.assert_array_equal(run(td.iterate(0, lambda s: s * 2, x)), a)
    np.testing.assert_array_equal(run(td.compute(x) + 1), a + 1)
    chosen = td.cond(td.sum(x) > 0, x, x + 1)
    np.testing.assert_array_equal(run(chosen * 1), a)


def test_reducing_over_no_axis(run):
    a = np.arange(6.0).reshape(2, 3)
    for mine, numpy in ((td.sum, np.sum), (td.mean, np.mean), (td.max, np.max), (td.prod, np.prod)):
        np.testing.assert_array_equal(run(mine(a, axis=())), numpy(a, axis=()))
    np.testing.assert_array_equal(run(td.sum(a, axis=(), keepdims=True)), a)
    plus_ten = td.fold(lambda x, y: x + y, 10, np.arange(4), axis=())
    np.testing.assert_array_equal(run(plus_ten), np.arange(4) + 10)


def test_writes_outside_are_dropped(run):
    ones = np.ones(5)
    beyond = td.permute(lambda new, old: new + old, np.zeros(3), lambda i: i, ones)
    np.testing.assert_array_equal(run(beyond), [1, 1, 1])
    below = td.permute(lambda new, old: new + old, np.zeros(3), lambda i: i - 3, ones)
    np.testing.assert_array_equal(run(below), [1, 1, 0])
    far = td.use(np.array([10**3])) * 1000  # computed
    np.testing.assert_array_equal(run(td.scatter(np.zeros(4), far, [5.0])), np.zeros(4))
    with pytest.raises(td.IndexOutOfBounds, match="index 1000000 is out of range"):
        td.scatter(np.zeros(4), [10**6], [5.0])


def test_a_table_of_another_extent_is_refused():
    order = td.schedule.Table(range(5))
    with pytest.raises(td.ScheduleError, match="12"):
        td.run(td.map(lambda x: x + 1, np.arange(12.0), schedule=order), backend="native")


def test_indices_in_kernels_never_count_from_the_end():
    v = td.use(np.arange(5.0))
    with pytest.raises(td.IndexOutOfBounds, match=r"shape\[0\] - 1"):
        td.generate(3, lambda i: v[-1])


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(td.DTypeError, match=r"0\.5"):
        td.fold(lambda x, y: x + y, 0.5, np.arange(3))
    with pytest.raises(td.DTypeError, match="float64"):
        td.fold(lambda x, y: x + y, td.float64(1.5), np.arange(3))
    with pytest.raises(td.DTypeError, match="64 bits"):
        td.jit(lambda a, k: a + k)(np.arange(3), 2**63)
    with pytest.raises(td.TracingError, match="mask"):
        td.sum(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_numpy_functions_on_arrays(run):
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(run(np.sum(td.use(a), axis=0)), a.sum(0))
    np.testing.assert_array_equal(
        run(np.concatenate([td.use(a), td.use(a)])), np.concatenate([a, a])
    )
    np.testing.assert_allclose(run(np.linalg.norm(td.use(a))), np.linalg.norm(a))
    assert np.linalg.cond(td.use(a)) == np.linalg.cond(a)  # of the values: td has no such function
    with pytest.raises(td.TracingError, match=r"np\.linalg\.cond does not work on a traced value"):
        td.jit(lambda a: np.linalg.cond(a))(a)


def test_a_copy_is_the_array_itself(run):
    def program(a):
        b = a.copy()
        return td.map(lambda x: x.copy() + 1, b) * b

    np.testing.assert_array_equal(run(program(td.use(np.arange(3.0)))), [0, 2, 6])
    np.testing.assert_array_equal(td.jit(program)(np.arange(3.0)), [0, 2, 6])


def test_a_scalar_does_not_leave_its_function():
    kept = []
    td.map(lambda x: (kept.append(x), x * 2)[1], np.arange(4.0))
    for use in (
        lambda: td.map(lambda y: y + kept[0], np.arange(5.0)),
        lambda: td.generate((3,), lambda i: td.cast(i, td.float64) + kept[0]),
        lambda: td.fill((3,), kept[0]),
        lambda: td.use(np.arange(3.0)) * kept[0],
    ):
        with pytest.raises(td.TracingError, match="outside the function that it belongs to"):
            use()


def test_an_extent_may_leave_its_function(run):
    kept = []
    a = td.use(np.arange(4.0))
    doubled = td.map(lambda x: (kept.append(a.shape[0]), x * 2)[1], a)
    np.testing.assert_array_equal(run(doubled), np.arange(4.0) * 2)
    assert run(td.fill((kept[0],), 1.0)).shape == (4,)


def test_an_order_that_is_none_is_refused():
    class Stuck(td.schedule.Order):
        def coordinates(self, t, shape):
            return t * 0, t * 0

    a = td.generate((3, 4), lambda i, j: i * 10 + j, schedule=Stuck())
    with pytest.raises(td.ScheduleError, match=r"not a bijection.*both visit"):
        td.run(a, backend="native")


@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**31, 2**31, 2)])
def test_more_than_any_machine_holds(shape):
    with pytest.raises(td.DeviceOutOfMemory, match="bytes asked for"):
        td.run(td.zeros(shape), backend="native")


def test_asking_a_function_for_what_its_programs_have():
    with pytest.raises(AttributeError, match=r"f\.lower\(\*args\)\.explain\(\)"):
        td.jit(lambda x: x + 1).explain()
    assert not hasattr(td.jit(lambda x: x), "nonsense")


def test_a_misspelt_variable(monkeypatch):
    monkeypatch.setenv("TREADLE_CHEK", "1")
    with pytest.warns(UserWarning, match="did you mean TREADLE_CHECK"):
        environment.warn_of_mistakes()


@pytest.mark.parametrize(("name", "text", "legal"), [
    ("TREADLE_NUM_THREADS", "abc", "1 or more"),
    ("TREADLE_NUM_THREADS", "0", "1 or more"),
    ("TREADLE_NUM_THREADS", "-3", "1 or more"),
    ("TREADLE_CHECK", "maybe", "1 or 0"),
    ("TREADLE_THREADS", "pyhton", "python"),
    ("TREADLE_VECTOR_BYTES", "48", "16 or 32"),
])  # fmt: skip
def test_a_variable_that_means_nothing(monkeypatch, name, text, legal):
    environment._value.cache_clear()
    environment.warn_of.cache_clear()
    monkeypatch.setenv(name, text)
    with pytest.warns(UserWarning, match=rf"{name}={text} has no effect\..*{legal}"):
        assert environment.variable(name) is None


def test_values_of_variables(monkeypatch):
    for name, text, value in [
        ("TREADLE_CHECK", "false", False),
        ("TREADLE_CHECK", "ON", True),
        ("TREADLE_CHECK", "", None),
        ("TREADLE_NUM_THREADS", " 3 ", 3),
        ("TREADLE_VECTOR_BYTES", "32", 32),
    ]:
        monkeypatch.setenv(name, text)
        assert environment.variable(name) == value


def test_a_backend_of_the_environment_that_there_is_not(monkeypatch):
    monkeypatch.setenv("TREADLE_BACKEND", "nativ")
    with pytest.raises(td.BackendUnavailable, match=r"'nativ', which TREADLE_BACKEND asks for"):
        td.run(td.iota(3))


def test_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    from treadle.skeletons import store

    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="TREADLE_CACHE_DIR=.* cannot be used"):
        store.put("x", 1)


def test_the_environment_is_read_when_a_program_is_made(monkeypatch):
    beyond = td.generate((3,), lambda i: td.use(np.ones(2))[i + 1])
    with monkeypatch.context() as changed:
        changed.setenv("TREADLE_CHECK", "1")
        with pytest.raises(IndexError):
            td.run(beyond)
        assert td.jit(lambda: beyond).lower().settings.check
        with td.config(check=False):
            assert not td.jit(lambda: beyond).lower().settings.check
    assert not td.jit(lambda: beyond).lower().settings.check


def test_the_scalar_of_a_scalar():
    table = np.array([3.0, 4.0])
    got = td.run(td.map(lambda x: x + td.the(td.use(table)[1]), np.ones(2)))
    assert got.tolist() == [5.0, 5.0]


def test_explaining_is_for_the_extents_that_are_asked_for():
    """A small trial first, then the real size: compiled once, explained for each."""
    f = td.jit(lambda a: td.stencil(lambda w: w[0, 0] + w[0, 1], a), backend="native")
    small, large = f.lower(np.zeros((30, 50))), f.lower(np.zeros((512, 400)))
    assert "n1 = 30, n2 = 50" in small.explain()
    assert "n1 = 512, n2 = 400" in large.explain()
    assert small.executable is large.executable


def test_values_of_arguments_are_not_there_while_a_program_is_built():
    for look, said in (
        (td.run, "'a', which represents any array"),
        (lambda a: td.error_bound(a, a), "needs the value of an array"),
    ):
        with pytest.raises(td.TracingError, match=said):
            td.jit(lambda a, look=look: (look(a), a)[1])(np.ones((3, 3)))


def test_slips_about_products():
    a = np.ones((4, 4))
    with pytest.raises(td.TracingError, match="beta=1 scales c, and there is none"):
        td.matmul(a, a, beta=1)
    with pytest.raises(td.TracingError, match="Did you mean strassen"):
        td.matmul(a, a, algorithm="strasen")
    with pytest.raises(td.TracingError, match="True or False"), td.precision("fast"):
        pass
    with pytest.raises(td.TracingError, match="0 to 8"):
        td.error_bound(a, a, "strassen", 99)
    h = np.random.default_rng(0).random((64, 64))
    assert td.error_bound(h, h, "standard", 2) == td.error_bound(h, h, "standard")


def test_misspelt_names_and_the_schedule_of_which_operation():
    with pytest.raises(AttributeError, match="Did you mean stencil"):
        td.stencl  # noqa: B018
    f = td.jit(lambda a: td.map(lambda x: x + 1, td.map(lambda x: x * 2, a, name="b"), name="c"))
    with pytest.raises(td.TracingError, match=r"scheduled\(c=Row\(\)\)"):
        f.lower(np.ones(3)).scheduled("c", td.schedule.Row())


def test_a_program_without_a_file_has_lines_all_the_same():
    script = "import numpy as np, treadle as td\ntd.map(lambda x, y: x, np.ones(2), np.ones(3))"
    with pytest.raises(td.ShapeError, match='File "<string>", line 2'):
        exec(compile(script, "<string>", "exec"), {})  # as `python -c` does


def test_indices_of_a_gather_count_from_the_start():
    for last in ([-1], np.array([-1])):
        with pytest.raises(IndexError):
            td.run(td.gather(np.arange(4), last), check=True)
        assert td.run(td.take(np.arange(4), last)).tolist() == [3]


def test_weights_under_either_name():
    a, w = np.arange(5.0), np.array([1.0, 2.0, 3.0])
    for f in (td.correlate, td.convolve):
        assert np.array_equal(td.run(f(a, w)), td.run(f(a, weights=w)))
        with pytest.raises(td.TracingError, match="weights once"):
            f(a)


def test_slips_of_a_second_user():
    x, im = np.ones(3), np.ones((4, 4))
    with pytest.raises(td.TracingError, match="one coordinate per axis"):
        td.stencil(lambda w: w[-1, 0], im, boundary=td.function(lambda i: i))
    with pytest.raises(td.TracingError, match="a function is not a boundary"):
        td.stencil(lambda w: w[-1, 0], im, boundary=td.constant)
    with pytest.raises(td.TracingError, match="return it from the function"):
        td.map(lambda v: print(f"{v:.2f}"), x)
    with pytest.raises(td.TracingError, match="a list of numbers"):
        td.jit(lambda a: td.sum(a))([1.0, 2.0, 3.0])
    with pytest.raises(td.NestedParallelismError, match="this is one"):
        td.map(lambda r: td.sum(r), im)
    with pytest.raises(td.TracingError, match=r"in order: fold\(f, init, a"):
        td.fold(0.0, lambda a, b: a + b, x)
    with pytest.raises(td.TracingError, match=r"in order: permute\(combine, defaults"):
        td.permute(x, lambda i: i, x, x)
    with pytest.raises(AttributeError, match=r"write td\.diff\(a"):
        td.use(x).diff()
    assert repr(td.use(x) + 1) == "Array([2., 2., 2.])"
    assert f"{td.float32(2):.2f}" == "2.00"


def test_names_of_other_libraries_lead_to_ours():
    for instead in (suggestions.INSTEAD, suggestions.METHODS):
        for text in instead.values():
            for name in re.findall(r"\btd\.(\w+)", text):
                assert hasattr(td, name), text
    # (td.explore is the module, once somebody has imported it.)
    assert not any(hasattr(td, name) for name in suggestions.INSTEAD if name != "explore")
    assert not any(hasattr(td.Array, name) for name in suggestions.METHODS)
    with pytest.raises(AttributeError, match=r"no 'fori_loop': td\.loop\(a, b, "):
        td.fori_loop(0, 3, lambda k, s: s, 0)
    with pytest.raises(AttributeError, match=r"no 'numpy': td\.run\(x\) computes it"):
        td.use(np.ones(3)).numpy()
    with pytest.raises(AttributeError, match="Did you mean stencil"):
        td.stencyl  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'fillna': td\.where\(td\.isnan\(a\), value, a\)"):
        td.use(np.ones(3)).fillna(0)


def test_lists_with_none_say_how_they_become_numbers():
    with pytest.raises(td.DTypeError, match=r"np\.array\(x, np\.float64\), which makes NaN of"):
        td.sum([1.0, None])
    assert float(td.nansum(np.array([1.0, None], np.float64))) == 1.0


def test_a_missing_name_is_pythons_attribute_error():
    with pytest.raises(AttributeError) as raised:
        td.stencyl  # noqa: B018
    shown = "".join(traceback.format_exception_only(raised.value))
    assert shown.startswith("AttributeError: treadle has no 'stencyl'")
    assert type(pickle.loads(pickle.dumps(raised.value))) is AttributeError


def test_arrays_of_classes_that_are_dataclasses():
    """zarr's are; what NumPy reads as an array is one."""

    @dataclass
    class Stored:
        path: str

        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

    assert td.run(td.sum(td.use(Stored("u")))) == td.run(td.sum(Stored("u"))) == 3


def test_a_mean_in_the_place_of_the_type():
    with pytest.raises(td.DTypeError, match=r"normal: the type .* is 2\.0\.[^!]*by its name"):
        td.random.normal(td.random.key(0), 3, 2.0, 0.5)


def test_parts_of_arrays_say_what_they_are():
    a = td.use(np.ones(3))
    assert ".set(new)" in repr(a.at[0]) and "a.at[index].add(new)" in repr(a.at)


def test_names_of_functions_that_treadle_has_as_draws():
    with pytest.raises(AttributeError, match=r"td\.random\.gamma draws .*math\.gamma"):
        td.gamma  # noqa: B018


def test_names_that_are_elsewhere_in_treadle_or_nowhere():
    with pytest.raises(AttributeError, match=r"schedule has no 'plot_order': td\.simulator\."):
        td.schedule.plot_order  # noqa: B018
    with pytest.raises(AttributeError, match=r"simulator has no 'Row': td\.schedule\.Row"):
        td.simulator.Row  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'Column': td\.schedule\.Column"):
        td.Column  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'StepLru': td\.simulator\.StepLru"):
        td.StepLru  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no method 'partition': write td\.partition\(a"):
        td.use(np.eye(2)).partition(1)
    for nonsense in ("covert", "partial"):  # cos, isinf, precision are not what is meant
        with pytest.raises(AttributeError, match=f"no '{nonsense}'.$"):
            getattr(td, nonsense)


def test_slips_of_a_third_user():
    x, im = np.ones(3), np.ones((4, 4))
    with pytest.raises(td.TracingError, match=r"td\.wrap is a value, not a function"):
        td.stencil(lambda w: w[1], x, boundary=td.wrap())
    for f in (lambda w: w + 1, lambda w: 2 * w, lambda w: td.where(w > 0, 1, 0), lambda w: -w):
        with pytest.raises(td.TracingError, match=r"element itself is w\[0, 0\]"):
            td.stencil(f, im)
    with pytest.raises(td.TracingError, match=r"formatting by '\.2f' needs the value of an array"):
        td.jit(lambda x: f"{td.sum(x):.2f}")(x)
    assert f"{td.sum(x):.2f}" == "3.00"
    with pytest.raises(td.ShapeError, match="lists of different lengths"):
        td.sum([[1, 2], [3]])
    with pytest.raises(td.TracingError, match="use needs an array, got NoneType"):
        td.use(None)
    with pytest.raises(td.DTypeError, match="does not fit in 64 bits"):
        td.use(2**70)
    huge = 1 << 20_000  # more digits than Python writes
    for f in (
        lambda n: td.use(n),
        lambda n: td.sum(x) + n,
        lambda n: td.jit(lambda v, k: v * k)(x, n),
    ):
        with pytest.raises(td.DTypeError, match="of 20001 bits does not fit in 64 bits"):
            f(huge)
    program = td.jit(lambda v, k: v * k).lower(x, 2)
    with pytest.raises(td.TracingError, match="1 array and 1 number, got 1 array and 0 numbers"):
        program(x)


def test_parts_of_arguments_have_the_names_of_their_fields():
    state = collections.namedtuple("state", "h u")
    f = td.jit(lambda s, pair: s.h + s.u + pair[1])
    text = f.lower(state(np.ones(3), np.ones(3)), (np.ones(3), np.ones(3))).explain()
    assert "  s.h " in text and "  s.u " in text and "  pair[1] " in text


def test_tests_of_extents_and_arguments_say_what_to_do():
    for f in (lambda v: v if v.shape[0] > 3 else -v, lambda v: v if v.shape == (3,) else -v):
        with pytest.raises(td.TracingError, match=r"Omit a\s+test of extents"):
            td.jit(f)(np.ones(3))
    with pytest.raises(td.TracingError, match=r"f\(a,\s+flag=…\)"):
        td.jit(lambda v, flag: v if flag else -v)(np.ones(3), True)
    for f in (td.concatenate, td.stack):
        with pytest.raises(td.TracingError, match=r"Write td\.\w+\(\[a, b\]\)"):
            f(np.ones(3), np.ones(3))
    with pytest.raises(td.BackendUnavailable, match="Did you mean cuda"):
        td.run(td.iota(3), backend="gpu")
    with pytest.raises(td.TracingError, match="Call it: its result"):
        td.run(td.jit(lambda v: v).lower(np.ones(3)))


def test_sparse_matrices_are_told_apart():
    sparse = pytest.importorskip("scipy.sparse")
    eye = sparse.eye_array(3, format="csc")
    for take in (td.use, td.sum, td.jit(lambda m: m)):
        with pytest.raises(td.TreadleError, match=r"m\.indices and\s+np\.diff\(m\.indptr\)"):
            take(eye)


def test_extents_of_data_that_is_there_are_shown():
    rows = td.use(np.ones((3, 4))).shape[0]
    assert repr(rows) == "3" and repr(rows * 2 + 1) == "7"
    seen = []
    td.jit(lambda x: (seen.append(repr(x.shape[0])), x)[1])(np.ones((3, 4)))
    assert "shape[0]" in seen[0]  # of any array
    assert rows * 2.5 == 7.5


def test_a_state_whose_type_changes_is_told_which_part():
    a = np.ones(5, np.float32)
    sums = (lambda s: s[1] > 3, lambda s: (s[0], td.sum(s[0])), (a, np.float64(np.inf)))
    with pytest.raises(td.DTypeError, match=r": state\[1\] was float64 and") as e:
        td.while_loop(*sums)
    assert "td.cast(x, td.float64); or the initial value: td.float32(…)" in e.value.hint
    with pytest.raises(td.DTypeError, match=r": state\[0\] was float32 and"):
        td.map(lambda x: td.iterate(3, lambda s: (x * td.float64(2), s[1]), (x, 1)), a)
    with pytest.raises(td.DTypeError) as e:
        td.iterate(3, lambda s: s * np.ones(5), a)
    assert "was" not in e.value.message
    with pytest.raises(td.DTypeError) as e:
        td.iterate(3, lambda s: (s[0] + 0.5, s[1]), (0, a))
    assert not e.value.also  # the line of the loop, which the error names


def test_a_state_whose_type_changes_is_told_where_the_other_type_comes_from():
    @dataclass
    class State:
        weights: Any
        steps: Any

    def step(s, _):
        steps = s.steps + 1
        halved = s.weights[0]["w"] / 2
        corrected = halved / (1 - 0.9**steps)  # a power of an int64
        return State([{"w": corrected * 3}], steps), None

    with pytest.raises(td.DTypeError, match=r"state\.weights\[0\]\['w'\] was float32") as e:
        td.scan(step, State([{"w": np.ones(3, np.float32)}], 0), length=2)
    said, where = e.value.also[0]
    assert said == "float64 comes from:" and "halved / (1 - 0.9**steps)" in where.render()


def test_a_number_of_the_state_that_becomes_an_array():
    with pytest.raises(td.ShapeError, match=r"array for state, which is one number") as e:
        td.scan(lambda c, x: (c + x, c), 0.0, np.ones((4, 3)))
    assert "td.zeros(shape)" in e.value.hint
    for other in (1.0, np.ones(3)):
        with pytest.raises(td.ShapeError, match=r"array for state\[0\], which is one number"):
            td.iterate(3, lambda s: (s[0] + np.ones(3), s[1]), (0.0, other))


def test_a_boundary_that_is_not_called_and_an_initial_value_that_is_missing():
    def blur(boundary):
        return td.stencil(lambda w: w[-1] + w[1], np.ones(5), boundary=boundary)

    for boundary, said in ((td.constant, "td.constant(value)"), (td.function, "td.function(g)")):
        with pytest.raises(td.TracingError) as e:
            blur(boundary)
        assert f"is not called: write {said}" in e.value.hint
    a = np.ones((4, 4))
    for call in (lambda: td.fold(td.add, a), lambda: td.fold(td.add, a, axis=0),
                 lambda: td.scanl(td.add, a), lambda: td.fold_seg(td.add, a, [2, 2])):  # fmt: skip
        with pytest.raises(td.TracingError, match="the initial value is missing") as e:
            call()
        assert "(f, init, a, " in e.value.hint
    with pytest.raises(td.TracingError, match="the initial value is an array") as e:
        td.fold(td.add, a, 0)
    assert "fold1(f, a, axis)" in e.value.hint
    with pytest.raises(td.TracingError, match="missing a required argument: 'a'"):
        td.fold(td.add, 0)


@pytest.mark.parametrize(("call", "said"), [
    (lambda: td.BilinearAlgorithm("mine", 2, 2, 2, [[1]], [[1]]),
     r"BilinearAlgorithm: missing a required argument: 'w'.(.|\n)*\(name, m, k, n, u, v, w\)"),
    (lambda: td.BilinearAlgorithm("mine", rows=2), "BilinearAlgorithm has no argument 'rows'"),
    (lambda: td.Cache(24, line_witdh=4), "Cache has no argument(.|\n)*mean line_width"),
    (lambda: td.simulator.SetAssociative(way=4), "SetAssociative has no argument(.|\n)*ways"),
    (lambda: td.constant(), "constant: missing a required argument: 'value'"),
    (lambda: td.function(f=max), "function has no argument 'f'(.|\n)*: g"),
    (lambda: td.complex_(1.0), "complex_: missing a required argument: 'im'"),
    (lambda: td.Array([1.0, 2.0]), r"cannot make an array of list(.|\n)*td.use\(x\)"),
    (lambda: td.Scalar(3.5), r"cannot make a scalar of float(.|\n)*td.float32\(3.5\)"),
])  # fmt: skip
def test_calls_with_other_arguments_are_told_the_form(call, said):
    with pytest.raises(td.TracingError, match=said):
        call()


def test_extents_beside_floats_take_their_type():
    x = np.ones((4, 3), np.float32)
    for f in (lambda x: x / x.shape[0], lambda x: td.sum(x) / x.shape[0], lambda x: x * x.size,
              lambda x: (x.shape[0] - 1) * x, lambda x: x / td.use(np.ones(7)).shape[0],
              lambda x: td.map(lambda e: e / x.shape[0], x)):  # fmt: skip
        assert td.jit(f)(x).dtype == np.float32
    assert td.jit(lambda x: td.unit(x.shape[0]))(x).dtype == np.int64
    for f in (lambda x: x * td.int64(3), lambda x: x / td.float64(x.shape[0]),
              lambda x: td.imap(lambda i, j, e: e * i, x)):  # fmt: skip
        assert td.jit(f)(x).dtype == np.float64


def test_a_tuple_of_arrays_where_one_is_needed():
    with pytest.raises(td.TracingError, match=r"tuple of 2 arrays(.|\n)*td.zip\(\*arrays\)"):
        td.stencil(lambda w: w[0], (np.ones(3), np.ones(3)))


def test_plot_tuning_of_something_else():
    with pytest.raises(td.ScheduleError, match="got int"):
        td.simulator.plot_tuning(3)


def test_dir_shows_what_is_public():
    assert {"map", "schedule", "simulate", "__version__"} <= set(dir(td))
    assert not {"annotations", "dsl", "backend", "skeletons", "_os"} & set(dir(td))


def test_printing_tells_the_components_of_a_loop():
    def program(u, v):
        return td.iterate(3, lambda s: td.unzip(td.zip(s[1], s[0])), (u, v))

    text = str(td.jit(program, backend="reference").lower(np.ones(3), np.zeros(3)))
    assert re.search(r"iterate from %\d+, %\d+ body %(\d+)\.\d, %\1\.\d", text), text


def test_settings_that_were_never_entered_are_warned_of():
    with pytest.warns(UserWarning, match=r"write `with td\.config\(check=True\):`"):
        td.config(check=True)
    block = td.config(backend="reference")
    with block, block:
        assert "on reference" in repr(td.jit(lambda v: v).lower(np.ones(2)))
    assert "on reference" not in repr(td.jit(lambda v: v).lower(np.ones(2)))

    @td.config(backend="reference")
    def where():
        return repr(td.jit(lambda v: v).lower(np.ones(2)))

    assert "on reference" in where() and repr(block).startswith("<td.config(backend=")


def test_statistics_of_neighbours_lead_to_stacked_arrays():
    a = np.arange(6.0)
    for function in (
        lambda w: td.median([w[-1], w[0], w[1]]),
        lambda w: td.median(td.stack([w[-1], w[0], w[1]])),
    ):
        with pytest.raises(td.TreadleError) as raised:
            td.stencil(function, a)
        hint = " ".join(str(raised.value).split())
        assert "td.median(td.stack([a[:-2], a[1:-1], a[2:]]), axis=0)" in hint, hint
    got = td.run(td.median(td.stack([a[:-2], a[1:-1], a[2:]]), axis=0))
    assert np.array_equal(got, a[1:-1])


def test_loops_of_numbers_whose_body_makes_arrays():
    def chain(start):
        def step(k, x):
            return x + td.random.normal(td.random.fold_in(td.random.key(1), 2 * k), ())

        return td.run(td.loop(9, step, start))

    want = 0.0
    for k in range(9):
        want += float(td.random.normal(td.random.fold_in(td.random.key(1), 2 * k), ()))
    assert np.isclose(chain(0.0), want) and chain(0.0) == chain(td.unit(0.0))
    v = np.arange(4.0)
    small = td.while_loop(lambda s: td.sum(td.use(v) * s) < 100, lambda s: s * 2, 1.0)
    assert td.run(small) == 32
    nested = td.loop(2, lambda k, s: td.loop(2, lambda j, r: r + td.sum(v * r * s), s), 1.0)
    s = r = 1.0
    for _ in range(2):
        for _ in range(2):
            r += v.sum() * r * s
        s = r
    assert td.run(nested) == s
    assert np.isclose(
        td.run(td.grad(lambda x: td.iterate(3, lambda s: td.sum(v * s), x))(1.0)), 216
    )


def test_a_numpy_array_indexed_by_an_argument():
    g = np.arange(6.0).reshape(3, 2)
    with pytest.raises(td.TracingError) as raised:
        td.jit(lambda k: g[k])(np.array([0, 2]))
    assert "td.use(g)[a]" in " ".join(str(raised.value).split())
    assert np.array_equal(td.jit(lambda k: td.use(g)[k])(np.array([0, 2])), g[[0, 2]])


def test_gradients_name_the_part_that_has_none():
    parts = {"w": np.ones(3), "layers": [1.5, {"b": 0}]}
    with pytest.raises(td.DTypeError, match=r"the argument p\['layers'\]\[1\]\['b'\] is int64"):
        td.grad(lambda p: td.sum(p["w"]) * p["layers"][1]["b"])(parts)
    with pytest.raises(td.DTypeError, match=r"vjp: the argument p\[0\] is int64"):
        td.vjp(lambda p: p[0] * 1.0, (np.arange(3),))


def test_files_of_arrays_are_no_programs(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    np.savez(tmp_path / "b.npz", np.ones(3))
    for name in ("a.npy", "b.npz"):
        with pytest.raises(td.StorageError, match=r"holds arrays of NumPy's(.|\n)*np\.load"):
            td.load(tmp_path / name)


def test_methods_of_arrays_are_those_of_numpy():
    given = np.arange(12.0).reshape(3, 1, 4) % 5
    a = td.use(given)
    for name in ("std", "var", "cumsum", "cumprod", "argsort", "squeeze"):
        np.testing.assert_allclose(getattr(a, name)(), getattr(given, name)(), rtol=1e-12)
        mine, numpys = (getattr(x, name)(axis=1) for x in (a, given))
        np.testing.assert_allclose(mine, numpys, rtol=1e-12)
    np.testing.assert_allclose(a.std(0, ddof=1, keepdims=True), given.std(0, ddof=1, keepdims=True))
    np.testing.assert_array_equal(a.take([2, 0], axis=2), given.take([2, 0], axis=2))
    np.testing.assert_array_equal(a.repeat(2, axis=0), given.repeat(2, axis=0))
    np.testing.assert_array_equal(a.swapaxes(0, 2), given.swapaxes(0, 2))
    assert [x.tolist() for x in a.nonzero()] == [x.tolist() for x in given.nonzero()]
    for name in ("trace", "diagonal"):
        np.testing.assert_array_equal(getattr(a, name)(1, 0, 2), getattr(given, name)(1, 0, 2))
    np.testing.assert_array_equal(a.compress([1, 0, 1], 2), given.compress([1, 0, 1], 2))
    rising = np.arange(0.0, 9.0, 2.0)
    np.testing.assert_array_equal(
        td.use(rising).searchsorted(given, "right"), rising.searchsorted(given, "right")
    )


def test_numbers_outside_of_programs_show_their_values():
    slope = td.grad(lambda x: x**2)(3.0)
    counted = td.loop(3, lambda k, total: total + k, 0)
    assert str(slope) == "6.0" and repr(slope) == "Array(6.)" and f"{slope}" == "6.0"
    assert repr(counted) == "Array(3)" and int(counted) == 3
    root = td.sqrt(9.0)
    assert str(root) == "3.0" and repr(root) == "Scalar(3.0: float64)" and f"{root}" == "3.0"


def test_a_number_becomes_an_array_by_its_index():
    def step(last, x):
        assert x[...] is x and x[()] is x
        return td.concatenate([last[1:], x[None]]), x[None, None]

    last, every = td.jit(lambda a: td.scan(step, td.zeros(2), a))(np.arange(5.0))
    np.testing.assert_array_equal(last, [3, 4])
    assert every.shape == (5, 1, 1)
    for index in (0, slice(None), (None, 0)):
        with pytest.raises(
            td.TracingError, match=r"cannot be indexed[^§]+x\[None\] makes an array"
        ):
            td.scan(lambda c, x: (c + x[index], None), 0.0, np.arange(3.0))
    with pytest.raises(td.TracingError, match="cannot be indexed"):
        td.map(lambda x: x[None], np.arange(3.0))


def test_scalars_of_traced_functions_have_no_values():
    seen = []
    td.jit(lambda x: (seen.append(str(td.the(td.sum(x)))), x)[1])(np.ones(2))
    assert seen[0].startswith("Scalar(%")


def test_a_value_is_asked_for_where_a_function_is_differentiated():
    kept = []
    with pytest.raises(td.TracingError, match="float") as raised:
        td.grad(lambda x: float(td.sum(x)))(np.ones(3))
    td.grad(lambda x: kept.append(x) or td.sum(x))(np.ones(3))
    assert "while a program is traced" in raised.value.hint
    with pytest.raises(td.TracingError, match="float") as raised:
        float(td.sum(kept[0]))
    assert "whose call has ended" in raised.value.hint


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda k: td.random.gamma(k, 3.0, (2,)), r"td\.random\.gamma\(key, \(3, 4\), …\)"),
        (lambda k: td.random.poisson(k, 3.0, (2,)), "The shape comes after the key"),
        (lambda k: td.random.uniform(k, 3, minval=0), "Did you mean low"),
        (lambda k: td.random.split(k, num=3), "Did you mean n"),
        (lambda k: td.map(lambda word: td.random.normal(word, ()), k), r"Map over both: td\.map"),
        (lambda k: td.convolve(k, k, boundary="reflect"), r"'reflect': td\.mirror reads 1 at -1"),
        (lambda k: k.at[0].get(), r"no 'get': read the part: a\[index\]"),
        (lambda k: k.at[0].mul(2), r"a\.at\[index\]\.multiply\(new\)"),
    ],
)
def test_words_of_jax_are_answered_with_those_of_treadle(wrong, said):
    with pytest.raises((td.TreadleError, AttributeError), match=said):
        wrong(td.random.key(0))


def test_numpys_functions_that_need_an_extent_say_what_is_written_instead():
    for f in (
        lambda x: x + np.ones(x.shape[0]),
        lambda x: x + np.full(x.shape[0], 1.0),
        lambda x: x + np.zeros(x.shape),
        lambda x: x + np.arange(x.shape[0]),
    ):
        with pytest.raises(td.TracingError, match=r"td.ones\(a.shape\[0\]\),\s+td.full, td.arange"):
            td.jit(f)(np.ones(3))


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "SLSQP"])
def test_scipys_optimisers_take_gradients_that_are_not_compiled(method):
    optimize = pytest.importorskip("scipy.optimize")

    def f(x):
        return td.sum((x - 1.0) ** 2)

    found = optimize.minimize(f, np.zeros(3), jac=td.grad(f), method=method)
    np.testing.assert_allclose(found.x, 1.0)
    assert isinstance(np.atleast_1d(td.iota(3)), np.ndarray)


def test_gradients_of_lists_say_that_a_list_is_no_array():
    with pytest.raises(td.TracingError, match="that is a list of numbers is not an array"):
        td.grad(lambda x: td.sum((x - 1.0) ** 2))([0.0, 1.0])


def test_a_condition_alone_finds_indices():
    a = td.use(np.array([1, 5, 2]))
    assert np.where(a > 1)[0].tolist() == [1, 2]
    with pytest.raises(td.TracingError, match=r"td\.nonzero"):
        td.jit(lambda a: np.where(a > 1))(np.arange(3))
    with pytest.raises(td.TracingError, match=r"td\.nonzero"):
        td.where(a > 1)


class Pair(NamedTuple):
    first: object
    second: object


def test_names_that_are_missed_have_advice():
    a = td.iota(3)
    for error, line, said in (
        (td.ShapeError, lambda: td.pad(a, 1, mode="linear_ramp"), "np.pad"),
        (AttributeError, lambda: a.summ, "Did you mean sum"),
        (AttributeError, lambda: td.segment_sum, r"zeros\(n\).at\[ids\].add\(a\)"),
        (AttributeError, lambda: td.linalg.eigvals, "eigvalsh.*np.linalg.eigvals"),
        (AttributeError, lambda: td.tree_map, "for k in w"),
        (AttributeError, lambda: td.typed, "lists and dicts"),
        (AttributeError, lambda: td.overload, "nothing is registered"),
        (AttributeError, lambda: td.jitclass, "a dataclass"),
        (AttributeError, lambda: td.putmask, r"a\.at\[mask\]"),
        (AttributeError, lambda: td.random.orthogonal, r"td\.linalg\.qr"),
        (AttributeError, lambda: a.at[0].bitwise_or, r"td\.permute\(td\.bitwise_or, a, "),
        (AttributeError, lambda: td.use(Pair(a, a)).first, r"first, second = td\.unzip\(a\)"),
        (td.TracingError, lambda: td.stencil(lambda w: w[0]), r"where the array is, td\.stencil"),
        (AttributeError, lambda: td.jit(lambda x: x).inspect_llvm, r"f.lower\(\*args\).source"),
        (
            AttributeError,
            lambda: td.jit(lambda x: x).lower(1.0).compile,
            r"call, program\(\*args\)",
        ),
        (AttributeError, lambda: td.jit(lambda x: x).lower(1.0).cost_analysis, r"program.explain"),
    ):
        with pytest.raises(error) as caught:
            line()
        assert re.search(said, str(caught.value)), caught.value


def test_a_thread_has_lists_instead_of_local_arrays():
    u = td.iota(4) * 1.0

    def local(make):
        def f(i):
            p = make()
            p[0] = u[i] * 2
            p[1] = p[0] + 1
            return p[0] + p[1]

        return td.generate(4, f)

    assert np.asarray(local(lambda: [0.0] * 3)).tolist() == [1.0, 5.0, 9.0, 13.0]
    for make in (lambda: np.zeros(3), lambda: td.zeros(3), lambda: u):
        with pytest.raises(td.TreadleError, match=r"list of\s+Python's"):
            local(make)
    s, k = td.zeros(4), td.iota(4)

    def adding(i):
        s[k[i]] += 1.0
        return s[i]

    with pytest.raises(td.TracingError, match=r"s\.at\[k\]\.add\(w\)"):
        td.generate(4, adding)

    def chosen(make):
        def f(i):
            p = make()
            p[i] = 2.0
            return p[0]

        return td.generate(4, f)

    for make in (lambda: [0.0] * 4, lambda: np.zeros(4)):
        with pytest.raises(td.TracingError, match=r"td\.where\(i == k, new, x\)"):
            chosen(make)


def test_storing_into_an_array_of_numpy_leads_to_a_new_array():
    def counts(x):
        h = np.zeros(5)
        h[x[0]] += 1
        return h

    def whole(x):
        h = np.zeros(3)
        h[:] = x
        return h

    first, all_ = r"h\.at\[x\[0\]\]\.add\(1\)", r"h\.at\[:\]\.set\(x\)"
    for f, said in ((counts, first), (whole, all_)):
        with pytest.raises(td.TracingError, match=rf"td\.zeros\(…\), and then h = {said}"):
            td.jit(f)(np.arange(3))


def test_errors_of_values_do_not_speak_of_tracing_where_nothing_is_traced():
    with pytest.raises(td.TracingError) as caught:
        hash(td.the(td.sum(td.iota(3))))
    said = str(caught.value).splitlines()
    assert "trac" not in said[0] + said[-1] and "float(x)" in said[-1]


def test_what_numbas_users_write_has_advice():
    a = td.iota(3)
    for line, said in (
        (lambda: td.jit("float64(float64)"), "Leave the signature out"),
        (lambda: td.jit(lambda x: [v for v in x])(np.ones(40)), "h.at"),
        (lambda: td.unzip((a, a)), "apart already"),
        (lambda: td.jit(lambda x: [k for k in range(x.shape[0])])(np.ones(3)), "td.generate"),
    ):
        with pytest.raises(td.TreadleError) as caught:
            line()
        assert said in str(caught.value), caught.value


def test_copies_do_not_see_later_changes():
    data = np.zeros(3)
    copies = [
        td.array(data), td.array(data, np.float32), td.asarray(data, copy=True), td.copy(data),
        td.use(data).copy(), copy.copy(td.use(data)), copy.deepcopy(td.use(data)),
    ]  # fmt: skip
    same = [td.use(data), td.asarray(data), td.use(data) + 0]
    data[0] = 9
    for a in copies:
        assert float(a[0]) == 0, a
    assert [float(a[0]) for a in same] == [9] * 3
    compiled = td.jit(lambda x: (x.copy(), td.copy(x) + 1))
    assert [r.tolist() for r in compiled(data)] == [[9, 0, 0], [10, 1, 1]]


def test_empty_lists_are_indices():
    a = td.use(np.arange(3.0))
    for found in (a[[]], td.take(a, []), np.take(a, []), td.gather(a, []), a.take([])):
        assert found.shape == (0,)
        assert found.dtype == a.dtype
    assert td.use(np.ones((2, 3)))[[]].shape == (0, 3)
    assert td.scatter(a, [], []).tolist() == a.at[[]].set(1.0).tolist() == [0, 1, 2]


@pytest.mark.parametrize("arguments", [(3, 4), (1.0, 2.0), (np.ones(2), np.ones(2))], ids=str)
def test_the_larger_of_two_is_not_a_reduction(arguments):
    for name, other in ("max", "maximum"), ("min", "minimum"):
        with pytest.raises(td.ShapeError) as raised:
            getattr(td, name)(*arguments)
        assert f"of two is td.{other}(x, y)." in " ".join(str(raised.value).split())


def test_a_scan_of_numbers_in_a_list_says_what_is_an_array():
    def step(state, x):
        return state + x, state

    with pytest.raises(td.ShapeError, match=r"one array as np\.array\(xs\)"):
        td.scan(step, 0, [1, 2, 3])
    assert td.scan(step, 0, np.array([1, 2, 3]))[1].tolist() == [0, 1, 3]


def test_a_mask_of_pixels_needs_an_axis_behind_its_own():
    image, mask = td.use(np.ones((6, 8, 3))), np.ones((6, 8), bool)
    with pytest.raises(td.ShapeError) as raised:
        td.where(mask, 0, image)
    assert "a[..., None] adds" in str(raised.value)
    assert td.where(mask[..., None], 0, image).shape == image.shape
    with pytest.raises(td.ShapeError, match=re.escape("a[..., None, None] adds")):
        image * np.ones(6)
    with pytest.raises(td.ShapeError, match=re.escape("a[:, None] inserts")):
        image * np.ones(4)
    with pytest.raises(td.ShapeError, match=re.escape("a[:, None] inserts")):
        image * np.ones((6, 8, 4))


class _Numbered(collections.UserDict[str, np.ndarray]):
    """A mapping that is no dict, as an archive of NumPy's is."""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: td.jit(lambda a: np.save("a.npy", a))(x), "np.save(path, f(a))"),
        (lambda x: td.jit(lambda a: np.savez("a.npz", a=a))(x), "np.savez(path, f(a))"),
        (lambda x: x.tofile("a.bin"), "td.run(a).tofile(path)"),
        (lambda x: td.jit(lambda a: sum(a[k] for k in range(a.shape[0])))(x), "range(5)"),
        (lambda x: td.jit(lambda z: z["x"])(_Numbered(x=np.ones(3))), "f(dict(x))"),
        (lambda x: x.at[0].div(2), "a[index] / new"),
        (lambda x: td.convolve(x, np.ones(3), "same"), "boundary=td.constant(0)"),
        (lambda x: td.stencil(lambda w: td.sum(w * 2), x), "td.correlate(a, weights)"),
        (
            lambda x: td.iterate(2, lambda s: td.map(lambda v: (v, v), s[0]), (x, x)),
            "td.unzip(a) makes a tuple of arrays",
        ),
    ],
)
def test_what_is_written_instead(call, says):
    with pytest.raises((td.TreadleError, AttributeError)) as raised:
        call(td.use(np.ones(5)))
    assert says in " ".join(str(raised.value).split())


def test_signatures_of_numba_are_left_out():
    numba = pytest.importorskip("numba")
    for signature in (numba.float64(numba.float64[:]), "float64(float64[:])"):
        with pytest.raises(td.TracingError, match="Leave the signature out"):
            td.jit(signature)
