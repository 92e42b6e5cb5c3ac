"""Every pass keeps meaning and order: each stage runs on the reference evaluator, and verifies."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.dsl.zoo import ZOO
from treadle.backend.reference.evaluate import run
from treadle.driver.program import Program
from treadle.dsl import passes
from treadle.dsl.expr import Apply, Cond, Index, Read, Var, walk
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Fold, Generate, Input, Matmul, Permute, StoringFold, topological
from treadle.dsl.graphs.relations import checks_before
from treadle.dsl.graphs.verify import BrokenGraph, verify
from treadle.dsl.process.configuration import Settings

BACKENDS = ("native", "cuda")


def lowered(name):
    function, arguments = ZOO[name]
    return td.jit(function, backend="reference").lower(*arguments)


def bound(program, arguments):
    """Inputs and params with their data."""
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    scalars = [a for a in arguments if not isinstance(a, np.ndarray)]
    captured = [n.source for n in program.source_inputs[len(arrays) :]]
    inputs = dict(zip(program.source_inputs, [*arrays, *captured], strict=True))
    return inputs, dict(zip(program.params, scalars, strict=True))


def assert_same(found, wanted):
    """Exact, but for the rounding that fused multiply-adds and separated stencils change."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if found.dtype.kind in "fc" and found.size:
        finite = np.abs(wanted[np.isfinite(wanted)])
        step = np.finfo(found.dtype).eps * (finite.max() if finite.size else 1.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if found.itemsize == 4 else 1e-13,
                                   atol=8 * step)  # fmt: skip
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.sample(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ZOO)
def test_every_stage_means_the_same(name, backend):
    program = lowered(name)
    inputs, params = bound(program, ZOO[name].arguments)
    verify(program.source_roots)
    wanted = run(program.source_roots, inputs, params, check=True)
    history = passes.run_passes(program.source_roots, Settings(), backend)
    assert history.stages
    inputs |= zip(history.inputs(program.source_inputs), list(inputs.values()), strict=True)
    for stage, roots in history.stages:
        verify(roots)
        try:
            for found, want in zip(run(roots, inputs, params, check=True), wanted, strict=True):
                assert_same(found, want)
        except Exception as error:
            error.add_note(f"after {stage}")
            raise


CHECKED = {
    "a mask of bools": (lambda m, a: td.compact(m, a)[0], (np.ones(5, bool), np.ones(5))),
    "a product with 0": (lambda a, b: (a + b) * 0, (np.arange(5), np.arange(5))),
    "one side": (lambda a, b: td.where(True, a, a + b), (np.ones(5), np.ones(5))),
    "stop": (lambda a, b: td.stop(a + b) * 2, (np.ones(5), np.ones(5))),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*ZOO, *CHECKED])
def test_no_pass_forgets_that_extents_agree(name, backend):
    function, arguments = {**ZOO, **CHECKED}[name]
    program = td.jit(function, backend="reference").lower(*arguments)

    def checked(roots):
        return {(c.error, c.relation, c.message) for c in checks_before(roots)}

    wanted = checked(program.source_roots)
    assert wanted or name in ZOO
    for stage, roots in passes.run_passes(program.source_roots, Settings(), backend).stages:
        assert wanted <= checked(roots), stage


@pytest.mark.sample(48)
@pytest.mark.parametrize("name", ZOO)
def test_passes_are_idempotent_on_their_input(name):
    """The same graph gives the same kernels twice: nothing is kept between runs."""
    program = lowered(name)
    first = passes.run_passes(program.source_roots, Settings(), "native")
    second = passes.run_passes(program.source_roots, Settings(), "native")
    assert len(list(topological(first.roots))) == len(list(topological(second.roots)))


# --- what fuses ------------------------------------------------------------------------------


def program(expression, backend="native", **settings):
    leaves, tree = flatten_results(expression)
    return Program(leaves, tree, Settings(**settings), backend)


def kinds(expression, **settings):
    return [type(k).__name__ for k in program(expression, **settings).kernels]


A = np.linspace(0, 1, 77).reshape(7, 11)


def test_maps_become_one_kernel():
    assert kinds(td.sum(td.exp(td.use(A)) * 2)) == ["Fold"]
    assert kinds(td.use(A)[1:, ::2].T + 1) == ["Generate"]


def test_siblings_share_a_kernel():
    a = td.use(A)
    assert kinds((a + 1, a * 2, td.exp(a))) == ["Generate"]
    assert kinds((td.sum(a, axis=0), td.sum(a * a, axis=0))) == ["Fold"]


def test_consumers_go_into_the_write_back():
    a = td.use(A)
    assert kinds(td.sqrt(td.sum(a, axis=1)) + 1) == ["Fold"]
    assert kinds(td.exp(td.cumsum(a, axis=1))) == ["Scan"]


def test_a_costly_producer_read_often_is_kept():
    a = td.use(A)
    made = program(td.stencil(lambda w: w[0, 1] + w[0, -1] + w[1, 0], td.exp(td.sin(a))))
    assert len(made.kernels) == 2
    assert "computing it again would cost" in made.history.context.kept[made.kernels[0]]


def test_reads_that_all_elements_share_are_no_work_of_each():
    a = td.use(A)
    scaled = a
    for k in range(5):
        scaled = scaled + td.the(td.sum(a * k))
    made = program(td.stencil(lambda w: w[0, 1] + w[0, -1] + w[1, 0], scaled))
    assert [type(k).__name__ for k in made.kernels] == ["Fold", "Generate"]


def test_a_view_does_not_hide_costly_work():
    """The cost of computing again is that of everything that went in."""
    a = td.use(A)
    view = td.transpose(td.exp(td.sin(a)))
    assert len(program(td.stencil(lambda w: w[0, 1] + w[0, -1] + w[1, 0], view)).kernels) == 2
    b = a
    for k in range(12):
        b = td.sqrt(b) + td.sum(b, axis=1)[:, None] * k
    work = max(len(list(walk(n.expressions()))) for n in program(b).kernels)
    assert work < 150


def test_readers_in_one_kernel_share_what_they_read():
    """`sqrt(b) + b` computes b once, however costly, and however long the chain."""
    b = td.exp(td.sin(td.use(A)))
    assert kinds((b * b + b) * (td.sqrt(b) - 1)) == ["Generate"]
    for _ in range(40):
        b = td.sqrt(b) + b * b
    made = program(b)
    assert [type(k).__name__ for k in made.kernels] == ["Generate"]
    assert len(list(walk(made.kernels[0].elements))) < 200


def test_an_explicit_schedule_is_a_kernel_of_its_own():
    a = td.use(A)
    b = td.map(lambda x: x + 1, a, schedule=td.schedule.Row())
    assert len(program(b * 2).kernels) == 2


def test_one_sided_work_stays_in_its_branch():
    a = td.use(A)
    made = program(td.cond(td.the(td.sum(a) > 1), td.exp(a), td.cos(a)))
    assert [type(k).__name__ for k in made.kernels] == ["Fold", "Generate", "Generate", "Branch"]


# --- idioms ----------------------------------------------------------------------------------


def by_hand(schedule=None):
    a, b = td.use(A), td.use(A.T.copy())
    left, right = td.replicate(a, 7, 1), td.replicate(b.T, 7, 0)
    return td.fold(lambda x, y: x + y, 0.0, td.map(lambda x, y: x * y, left, right),
                   schedule=schedule)  # fmt: skip


def test_a_product_by_hand_is_recognised():
    made = program(by_hand())
    assert [type(k) for k in made.kernels] == [Matmul]
    assert any("matmul" in note for note in made.history.context.notes)


def test_an_explicit_schedule_suppresses_recognition():
    made = program(by_hand(td.schedule.Column(4)))
    assert [type(k) for k in made.kernels] == [Fold]


def test_recognition_can_be_switched_off():
    assert kinds(by_hand(), recognise=False) == ["Fold"]
    with td.config(recognise=False):
        lower = td.jit(by_hand, backend="reference").lower()
        assert not lower.settings.recognise


def test_scattering_ones_is_a_count():
    at = td.use(np.arange(9) % 4)

    def scattered(values, combine=lambda new, old: new + old):
        return program(td.scatter(td.zeros(4, td.int64), at, values, combine))

    def named(made):
        return any("is a count" in note for note in made.history.context.notes)

    assert named(scattered(td.ones(9, td.int64)))
    assert named(scattered(td.fill((9,), 3)))
    assert not named(scattered(np.ones(9, "i8")))
    assert not named(scattered(td.ones(9, td.int64), lambda new, old: td.maximum(new, old)))


# --- orders that are pinned ------------------------------------------------------------------


def test_a_deterministic_program_pins_what_depends_on_an_order():
    at = td.use(np.arange(9) % 4)

    def add(new, old):
        return new + old

    def pinned(array, **options):
        (kernel,) = [k for k in program(array, **options).kernels if isinstance(k, Permute)]
        return kernel.label.deterministic

    sums = td.permute(add, np.zeros(4), lambda i: at[i], np.ones(9))
    counts = td.permute(add, np.zeros(4, "i4"), lambda i: at[i], np.ones(9, "i4"))
    kept = td.permute(td.overwrite, np.zeros(4, "i4"), lambda i: at[i], np.ones(9, "i4"))
    assert [pinned(x, deterministic=True) for x in (sums, counts, kept)] == [True, False, True]
    assert not pinned(sums)
    for total, pins in ((td.sum(np.ones(9)), True), (td.sum(np.ones(9, "i4")), False)):
        assert [k.label.deterministic for k in program(total, deterministic=True).kernels] == [pins]
    (product,) = program(td.matmul(np.ones((5, 5)), np.ones((5, 5))), deterministic=True).kernels
    assert product.options.deterministic


# --- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_numbers_of_one_loop_are_one_kernel(backend):
    def epidemic(x):
        def step(k, s):
            ill, well, time = s
            more = td.where(x[k] < 0.5, 1.0, -1.0)
            return ill + more, well - more, time - td.log(x[k])

        return td.loop(x.shape[0], step, (10.0, 90.0, 0.0))

    def many(a):
        return td.loop(50, lambda k, s: tuple(v * a + k for v in s), tuple(map(float, range(12))))

    def others(x):
        return td.loop(9, lambda k, s: s + x[k], 0.0), td.loop(9, lambda k, s: s * x[k], 1.0)

    x = np.random.default_rng(0).random(40)
    for f, a, kernels in ((epidemic, x, 2), (many, 0.5, 1), (others, x, 2)):  # logs are before
        assert len(td.jit(f, backend="native").lower(a)._on(backend).kernels) == kernels
        for one, other in zip(td.jit(f, backend="native")(a), td.jit(f, backend="reference")(a),
                              strict=True):  # fmt: skip
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_constants_that_are_chosen_have_the_type_that_is_needed():
    """`where(p, 1, 0)` beside floats chooses among floats: nothing is converted for an element."""
    x = np.array([-1.5, 0.5, 2.0])
    f = lambda x: x * td.where(x > 1, 2, td.where(x > 0, 1, 0))
    lower = td.jit(f, backend="native").lower(x)
    (root,) = passes.run_passes(lower.source_roots, Settings(), "native").roots
    casts = (e for e in walk(root.node.elements) if isinstance(e, Apply) and e.op.name == "cast")
    assert not any(casts)
    assert np.array_equal(td.jit(f, backend="native")(x), [-0.0, 0.5, 4])
    wrapped = lambda x: td.where(x > 0, 300, -1).astype(td.uint8)
    assert np.array_equal(td.jit(wrapped, backend="native")(x), [255, 44, 44])


# --- guards ----------------------------------------------------------------------------------


def test_sharing_never_hoists_a_guarded_read():
    """A read that a condition guards is below a Cond in every stage, and never runs outside."""
    a = np.arange(5.0)

    def guarded(a):
        b = td.exp(a) * 2
        return td.generate(
            (9,), lambda i: td.cond(i < 5, b[i] + b[i] * a[i], 0.0) + td.cond(i < 5, b[i], 1.0)
        )

    lower = td.jit(guarded, backend="reference").lower(a)
    for _, roots in passes.run_passes(lower.source_roots, Settings(), "native").stages:
        for node in topological(roots):
            if isinstance(node, Generate) and "generate" in str(node.label):
                for e in unguarded(node.elements):
                    assert not isinstance(e, Read)
        run(roots, {lower.inputs[0]: a}, {}, check=True)


def conds(f, *arrays):
    """How many conditionals the kernels of a program have."""
    lower = td.jit(f, backend="native").lower(*arrays)
    roots = passes.run_passes(lower.source_roots, Settings(), "native").roots
    return sum(isinstance(e, Cond) for r in roots for e in walk(r.node.elements))


def test_reads_that_are_made_anyway_are_not_guarded():
    a, k = np.ones(9), np.arange(4)
    taken = lambda a, k: td.generate(k.shape, lambda i: a[k[i]])
    assert conds(lambda a, k: td.where(taken(a, k) > 0, taken(a, k), 0), a, k) == 0
    assert conds(lambda a, k: td.where(k >= 0, taken(a, k), 0), a, k) == 1
    either = lambda a, k: td.where(k > 0, taken(a, k), 2 * taken(a, k))
    assert conds(either, a, k) == 0


def test_reads_in_loops_are_guarded():
    """Unless the loop is over all of an axis, which is in range."""
    a, k = np.ones((4, 3)), np.array([-(10**9), 0, 1, 2])

    def window(a, k):
        near = lambda i: td.loop(3, lambda j, s: s + a[k[i] + j, 0], 0.0)
        return td.generate(k.shape, lambda i: td.where(k[i] >= 0, near(i), 0.0))

    def rows(a, k):
        row = lambda i: td.loop(a.shape[1], lambda j, s: s + a[i, j], 0.0)
        return td.generate(k.shape, lambda i: td.where(k[i] >= 0, row(i), 0.0))

    assert conds(window, a, k) == 1 and conds(rows, a, k) == 0
    k[-1] = 1
    assert np.array_equal(td.jit(window, backend="native")(a, k), [0, 3, 3, 3])


def test_reads_of_reshaped_arrays_are_not_guarded():
    """They are in range wherever the reshaped array is read in range."""
    a, p = np.ones((3, 4, 4)), np.arange(3) > 0

    def beside(a, p):
        rows = a.reshape(-1, 4)
        return td.generate(p.shape, lambda i: td.where(p[i], rows[i + 1, 0], 0))

    assert conds(lambda a: td.where(a.reshape(-1) > 0, a.reshape(-1) + 1, 0), a) == 0
    assert conds(beside, a, p) == 1
    inverse = lambda a: td.linalg.inv(a.reshape(-1, 4, 4))
    assert conds(inverse, a + np.eye(4)) == 0
    text = td.jit(inverse, backend="native").lower(a).explain()
    assert "rows of 16 elements side by side" in text


def unguarded(roots):
    """Expressions that are evaluated whatever the conditions say."""
    stack, seen = list(roots), set()
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            yield e
            stack += [*e.args, *(() if isinstance(e, Cond) else e.scoped)]


def test_what_was_decided_of_a_kernel_is_told_after_the_ones_before_it_changed():
    """A later pass guards the first kernel, so that the second is made over another one."""

    def box(a):
        return td.stencil(lambda w: sum(w[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)), a)

    def costly(a):
        first = td.generate(a.shape, lambda i, j: td.where(i > 0, a[i - 1, j], 0.0))
        return box(td.exp(td.sin(box(td.exp(td.sin(first))))))

    said = td.jit(costly).lower(np.ones((8, 8))).explain()
    assert "kernel 1 into 2" in said and "kernel 2 into 3" in said


# --- speed -----------------------------------------------------------------------------------


def chain(n):
    a = td.use(np.arange(8.0))
    for k in range(n // 2):
        a = a * 1.5 + float(k)
    return a


def folds(n):
    a = td.use(np.ones((4, 4)))
    for k in range(n // 4):
        a = a * 1.5 + td.sqrt(td.sum(a * float(k), axis=1))[:, None]
    return a


def choices(n):
    a = td.use(np.arange(8.0))
    for k in range(n // 5):
        a = td.cond(td.the(a[0] > k), a + 1, a - float(k))
    return a


def places(n):
    def at(i):
        for k in range(n // 3):
            i = (i * 3 + k) % 97
        return y[i]

    y = td.sin(td.use(np.arange(97.0)))
    return td.generate(97, at)


@pytest.mark.sample(1)
@pytest.mark.parametrize("build", [chain, folds, choices, places])
def test_passes_take_linear_time(build, calls):
    def work(n):
        leaves, _ = flatten_results(build(n))
        return calls(lambda: passes.run_passes(leaves, Settings(), "native"))

    work(50)
    thousand = work(1000)
    assert thousand < 4 * 1.2 * work(250)
    assert thousand < 1000 * 2600


def test_equal_extents_of_nested_slices_are_found_at_once(calls):
    """Each pair of slices has two formulas for one extent, in those of the pair before."""

    def work(n):
        def nested(a):
            for _ in range(n):
                a = a[1:, :-1] + a[:-1, 1:]
            return a

        roots = td.jit(nested).lower(np.ones((60, 60))).source_roots
        context = passes.Context(Settings(), "native")
        return calls(lambda: passes.unify_extents(roots, context))

    work(2)
    assert work(40) < 8 * work(10)


# --- the verifier itself ---------------------------------------------------------------------


def test_the_verifier_finds_what_is_wrong():
    source = Input("x", td.float64, (False, False))
    label = td.use(A)._leaves[0].node.label
    i, j = Index(0), Index(1)

    def node(*elements, shape=source.shape):
        return Generate(shape, elements, label=label)

    verify([node(Read(source, 0, (i, j))).leaf()])
    wrong = {"indices": node(Read(source, 0, (i,))), "axis": node(Read(source, 0, (i, Index(2))))}
    for word, broken in wrong.items():
        with pytest.raises(BrokenGraph, match=word):
            verify([broken.leaf()])
    with pytest.raises(BrokenGraph, match="unbound"):
        verify([node(Var("x", td.float64)).leaf()])


# --- fuse_in_place ------------------------------------------------------------------------------


def test_a_result_and_what_reads_it_in_place_are_one_kernel():
    a, b = np.arange(6.0), np.arange(6.0) + 1

    def f(x, y):
        first = td.sqrt(x * y)
        second = first - x
        return first, second, td.exp(second) + first

    program = td.jit(f).lower(a, b)
    (kernel,) = program.kernels
    assert len(kernel.outputs) == 3
    for found, want in zip(program(a, b), td.jit(f, backend="reference")(a, b), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-15)


def test_what_reads_two_results_in_place_is_in_one_kernel_with_both():
    a, b = np.arange(6.0), np.arange(6.0) + 1

    def f(x, y):
        left, right = td.sqrt(x * y), td.exp(y)
        return left, right, left * right, right - left * right

    program = td.jit(f).lower(a, b)
    (kernel,) = program.kernels
    assert len(kernel.outputs) == 4
    for found, want in zip(program(a, b), td.jit(f, backend="reference")(a, b), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-15)

    def crossed(x, y):  # one of the results is read elsewhere by the other
        left = td.sqrt(x * y)
        right = td.exp(left[::-1])
        return left, right, left * right

    program = td.jit(crossed).lower(a, b)
    assert len(program.kernels) == 2
    for found, want in zip(program(a, b), td.jit(crossed, backend="reference")(a, b), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-15)


def test_only_what_others_read_counts_as_stored():
    """Forty numbers of an element are no forty arrays: a sum reads the one that is stored."""
    a = np.arange(1.0, 7.0)

    def f(x):
        found = [td.sqrt(x), td.log(x)]
        for _ in range(20):
            found.append(td.exp(td.sin(found[-1]) * found[-2]))
        return found[-1], td.sum(found[-1]) + td.sum(found[-2])

    program = td.jit(f).lower(a)
    assert sum(bool(o.shape) for k in program.kernels for o in k.outputs) == 1
    for found, want in zip(program(a), td.jit(f, backend="reference")(a), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-13)


def test_a_reader_elsewhere_stays_apart():
    a = np.arange(6.0)

    def shifted(x):
        first = td.exp(x)
        return first, first[::-1] + first

    assert len(td.jit(shifted).lower(a).kernels) == 2

    def around(x):  # the reader also needs a kernel that needs the result
        first = td.exp(x)
        total = td.the(td.sum(first))
        return first, first / total

    program = td.jit(around).lower(a)
    assert [type(k) for k in program.kernels] == [StoringFold, Generate]
    np.testing.assert_allclose(program(a)[1], np.exp(a) / np.exp(a).sum())


# --- extents that checks make equal ----------------------------------------------------------


def test_a_stencil_of_zipped_arguments_reads_each_as_a_stencil():
    def program(h, u):
        return td.stencil(lambda w: w[0, 1][0] + 2 * w[1, 0][1], td.zip(h, u), boundary=td.wrap)

    a, b = np.arange(12.0).reshape(3, 4), np.ones((3, 4))
    (kernel,) = (r.node for r in td.jit(program, backend="native").lower(a, b).roots)
    found = [e for e in walk(kernel.elements) if isinstance(e, Read)]
    assert [e.boundary for e in found] == ["wrap", "wrap"]
    for backend in ("native", "reference"):
        want = np.roll(a, -1, 1) + 2 * np.roll(b, -1, 0)
        assert (td.jit(program, backend=backend)(a, b) == want).all()


def test_arguments_of_one_shape_meet_in_one_kernel_of_a_loop():
    def leapfrog(u, v):
        def step(s):
            u, v = s
            v = v + td.stencil(lambda w: w[-1] + w[1] - 2 * w[0], u)
            return u + v, v

        return td.iterate(2, step, (u, v))

    u, v = np.arange(5.0) ** 2, np.zeros(5)
    program = td.jit(leapfrog, backend="native").lower(u, v)
    assert "1 kernel launched" in program.explain()
    want = td.jit(leapfrog, backend="reference")(u, v)
    assert all((a == b).all() for a, b in zip(program(u, v), want, strict=True))
    with pytest.raises(td.ShapeError):
        program(u, v[1:])


# --- what is stored ----------------------------------------------------------------------------


def tuples(kind):
    """A kernel of two components, of which only the second one is asked for."""
    a = td.zip(td.use(A), td.use(np.cos(A)))

    def combine(x, y):
        return td.maximum(x[0], y[0]), x[1] + y[1]

    made = {
        "stencil": lambda: td.stencil(lambda w: (td.exp(w[0, 0][0]), w[0, 1][1]), a),
        "fold": lambda: td.fold(combine, (0.0, 0.0), a),
        "fold_seg": lambda: td.fold_seg(combine, (0.0, 0.0), a, np.array([5, 6])),
        "scan": lambda: td.scanl1(combine, a),
    }[kind]()
    return td.unzip(made)[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["stencil", "fold", "fold_seg", "scan"])
def test_unused_components_are_not_stored(kind, backend):
    made = program(tuples(kind), backend)
    verify(made.roots)
    assert len(made.kernels[-1].outputs) == 1
    if backend == "native":
        assert_same(made.execute(()), td.run(tuples(kind), backend="reference"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_only_a_fused_sibling_reads_is_not_stored(backend):
    a, b = td.use(A), td.use(np.cos(A))
    s = td.stencil(lambda w, v: (w[0, -1] + w[0, 1], v[-1, 0] * 2 + w[0, 0]), a, b)
    p, q = td.unzip(s)
    made = program((p, td.imap(lambda i, j, x: td.where(i == 0, 0.0, x), q)), backend)
    (kernel,) = made.kernels
    assert len(kernel.outputs) == 2
    if backend == "native":
        want = td.run((p, td.imap(lambda i, j, x: td.where(i == 0, 0.0, x), q)),
                      backend="reference")  # fmt: skip
        for got, wanted in zip(made.execute(()), want, strict=True):
            assert_same(got, wanted)


def test_what_a_dropped_component_read_is_dropped_too():
    """The first component is not read, so the sorted array is not needed either."""
    a = td.use(A)
    pair = td.stencil(lambda w, v: (w[0, 1], v[1, 0]), td.compute(td.sort(a)), td.compute(a * 2))
    labels = [k.label.operation for k in program(td.compute(td.unzip(pair)[1] + 1)).kernels]
    assert "sort" not in labels


# --- indices that checked programs test --------------------------------------------------------

OUTSIDE = td.use(np.arange(8))
SIMPLER = {
    "x * 0": lambda i, x: x * 0,
    "x - x": lambda i, x: x - x,
    "x % 1": lambda i, x: x % 1,
    "(i + x) - x": lambda i, x: (i + x) - x,
    "(i - x) + x": lambda i, x: (i - x) + x,
    "where": lambda i, x: td.where(True, i, x),
    "where of equals": lambda i, x: td.where(x > 0, i, i),
    "x == x": lambda i, x: x == x,
    "isnan": lambda i, x: td.isnan(x),
    "and": lambda i, x: td.logical_and(False, x > 0),
    "or": lambda i, x: td.logical_or(x > 0, True),
    "in a loop": lambda i, x: td.loop(3, lambda k, s: s + OUTSIDE[k + 9], x) * 0,
}


@pytest.mark.parametrize("label", SIMPLER)
def test_what_is_simplified_away_leaves_its_reads(label):
    """Until it is known that no index is tested: then nothing is left of it."""
    f = SIMPLER[label]
    (root,) = td.generate((4,), lambda i: f(i, OUTSIDE[i + 100]))._leaves
    for check in (False, True):
        (made,) = passes.run_passes([root], Settings(check=check), "native").roots
        verify([made])
        reads = any(isinstance(e, Read) for e in walk(made.node.elements))
        assert reads == check


def _pooled(a, combine=td.max):
    h, w = a.shape
    return combine(a[: h // 2 * 2, : w // 3 * 3].reshape(h // 2, 2, w // 3, 3), axis=(1, 3))


@pytest.mark.sample(8)
@pytest.mark.parametrize("combine", [td.max, td.sum, td.mean])
@pytest.mark.parametrize("shape", [(8, 9), (9, 11), (2, 3), (0, 9), (64, 130)])
def test_pooling_is_loops_without_divisions(combine, shape):
    a = np.random.default_rng(3).integers(-50, 50, shape).astype(np.float64)
    results = [td.jit(lambda a: _pooled(a, combine), backend=b)(a) for b in ("native", "reference")]
    np.testing.assert_array_equal(*results)
    program = td.jit(lambda a: _pooled(a, combine)).lower(a)
    (kernel,) = (n for n in topological(program.roots) if not isinstance(n, Input))
    assert isinstance(kernel, Generate)
    divided = [e for r in walk(kernel.elements) if isinstance(r, Read) for e in walk(r.args)]
    assert not any(getattr(e, "op", None) and "divide" in e.op.name for e in divided)


def test_windows_that_are_not_short_remain_folds():
    a = np.arange(3.0 * 16 * 5 * 16).reshape(3 * 16, 5 * 16)

    def program(a):
        return td.sum(a.reshape(3, 16, 5, 16), axis=(1, 3))

    made = td.jit(program).lower(a)
    assert any(isinstance(n, Fold) for n in topological(made.roots))
    np.testing.assert_array_equal(td.jit(program)(a), a.reshape(3, 16, 5, 16).sum((1, 3)))


@pytest.mark.parametrize("initial", [None, 0.0, 9.0])
def test_an_extreme_and_its_place_are_one_fold(initial):
    """The gradient of a maximum needs its place: both are of one fold of pairs."""

    def loss(x):
        rows = td.max(x, axis=1) if initial is None else td.fold(td.maximum, initial, x)
        return td.sum(rows**2)

    x = np.random.default_rng(0).standard_normal((5, 70))
    x[1, 20] = x[1, 60] = 4.0
    both = td.jit(td.value_and_grad(loss), backend="native")
    folds = [k for k in topological(both.lower(x).roots) if isinstance(k, Fold | StoringFold)]
    assert sorted(len(f.elements) for f in folds) == [1, 2]
    value, gradient = both(x)
    best = x.max(1) if initial is None else np.maximum(x.max(1), initial)
    wanted = np.zeros_like(x)
    for row, at in enumerate(x.argmax(1)):
        wanted[row, at] = 2 * best[row] * (best[row] == x[row, at])
    np.testing.assert_allclose(value, (best**2).sum(), rtol=1e-14)
    np.testing.assert_array_equal(gradient, wanted)
