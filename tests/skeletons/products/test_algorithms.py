"""Matrix-multiplication algorithms: exact identities, and the papers' tables from their data."""

from collections import Counter
from fractions import Fraction as F
from itertools import pairwise

import numpy as np
import pytest

import treadle as td
from treadle.skeletons.products import (
    LADERMAN,
    NAMED,
    STANDARD,
    STRASSEN,
    WINOGRAD,
    BilinearAlgorithm,
    bound_factor,
    growth,
    instances,
    power,
    stages,
    variants,
)
from treadle.skeletons.products.at_once import at_once, passes_at_once
from treadle.skeletons.products.executions import Space, execute, plan, run
from treadle.skeletons.products.kit import Kit
from treadle.skeletons.products.sequences import RECURSIVE, Product, Sums, kinds


@pytest.mark.parametrize(
    "algorithm",
    [*NAMED.values(), power(STRASSEN, 2), power(WINOGRAD, 2), STRASSEN.compose(WINOGRAD),
     LADERMAN.compose(STRASSEN), power(STRASSEN, 3)],
    ids=lambda a: a.name,
)  # fmt: skip
def test_brents_equations(algorithm):
    algorithm.verify()


def test_wrong_tables_are_refused():
    u, v, w = STRASSEN.u.copy(), STRASSEN.v, STRASSEN.w
    u[0, 0] = -1
    with pytest.raises(td.TracingError, match=r"no ⟨2, 2, 2⟩ algorithm.*equations fail"):
        BilinearAlgorithm("wrong", 2, 2, 2, u, v, w)
    with pytest.raises(td.ShapeError, match=r"table u has the shape \(7, 4\)"):
        BilinearAlgorithm("turned", 2, 2, 2, u.T, v, w)
    with pytest.raises(td.ShapeError, match="7, 7 and 6 columns"):
        BilinearAlgorithm("short", 2, 2, 2, STRASSEN.u, v, w[:, :6])
    with pytest.raises(td.ShapeError, match="counts of blocks"):
        BilinearAlgorithm("none", 0, 2, 2, u, v, w)
    more = [np.concatenate([t, np.zeros((4, 1))], 1) for t in (STRASSEN.u, v, w)]
    with pytest.raises(td.TracingError, match="product 7 has no term in table u"):
        BilinearAlgorithm("padded", 2, 2, 2, *more)
    with pytest.raises(td.DTypeError, match="only come near"):
        BilinearAlgorithm("third", 1, 1, 1, [[1 / 3]], [[3]], [[1]])
    for name in (["a"], {}, None, 3):
        with pytest.raises(td.DTypeError, match="name must be a string"):
            BilinearAlgorithm(name, 1, 1, 1, [[1]], [[1]], [[1]])


@pytest.mark.parametrize("name", ["strassen", "winograd"])
def test_other_tables_of_a_known_name(name):
    """The tables say what is computed; the name is only a name."""
    a, b = np.arange(36.0).reshape(6, 6), np.arange(36.0)[::-1].reshape(6, 6)
    usual = BilinearAlgorithm(name, 1, 1, 1, [[1]], [[1]], [[1]])
    others = BilinearAlgorithm(name, 3, 3, 3, LADERMAN.u, LADERMAN.v, LADERMAN.w)
    exchanged = WINOGRAD if name == "strassen" else STRASSEN
    turned = BilinearAlgorithm(name, 2, 2, 2, exchanged.u, exchanged.v, exchanged.w)
    for algorithm in (usual, others, turned):
        for backend in ("reference", "native"):
            got = td.run(td.matmul(a, b, algorithm=algorithm, levels=1), backend=backend)
            assert np.array_equal(got, a @ b)


def test_fractions():
    """⟨1, 1, 1; 1⟩ with (A/2)(2B), and Strassen's with halves: exact in floats, not in integers."""
    half = BilinearAlgorithm("half", 1, 1, 1, [[0.5]], [[2]], [[1]])
    assert half == BilinearAlgorithm("half", 1, 1, 1, [[F(1, 2)]], [[2]], [[1]])
    assert len({half, BilinearAlgorithm("half", 1, 1, 1, [[0.25]], [[4]], [[1]])}) == 2
    halves = BilinearAlgorithm("halves", 2, 2, 2, STRASSEN.u / 2, STRASSEN.v, STRASSEN.w * 2)
    a = np.arange(36.0).reshape(6, 6)
    for algorithm in (half, halves, halves.compose(half)):
        assert algorithm.fractions
        for backend in ("reference", "native"):
            got = td.run(td.matmul(a, a, algorithm=algorithm), backend=backend)
            assert np.array_equal(got, a @ a)
    with pytest.raises(td.DTypeError, match="which int64 cannot represent"):
        td.matmul(a.astype("i8"), a.astype("i8"), algorithm=half)


def test_products():
    assert [a.products for a in (STANDARD, STRASSEN, WINOGRAD, LADERMAN)] == [1, 7, 7, 23]
    assert power(STRASSEN, 2).products == 49


def test_one_level_of_instances():
    """Equation 3 of Huang, Yu, van de Geijn."""
    assert [str(i) for i in instances(STRASSEN)] == [
        "M = (A0 + A3)(B0 + B3); C0 += M; C3 += M",
        "M = (A2 + A3)(B0); C2 += M; C3 -= M",
        "M = (A0)(B1 - B3); C1 += M; C3 += M",
        "M = (A3)(-B0 + B2); C0 += M; C2 += M",
        "M = (A0 + A1)(B3); C0 -= M; C1 += M",
        "M = (-A0 + A2)(B0 + B1); C3 += M",
        "M = (A1 - A3)(B2 + B3); C0 += M",
    ]


#: Figure 5: blocks of A, of B, and of C with signs, of the 49 instances of two levels.
FIGURE_5 = {
    14: ({0, 5}, {2, 10, 7, 15}, {2: 1, 7: 1, 10: 1, 15: 1}),
    15: ({4, 5}, {2, 10}, {6: 1, 7: -1, 14: 1, 15: -1}),
    16: ({0}, {3, 11, 7, 15}, {3: 1, 7: 1, 11: 1, 15: 1}),
    28: ({0, 2, 5, 7}, {10, 15}, {0: -1, 5: -1, 2: 1, 7: 1}),
    29: ({4, 6, 5, 7}, {10}, {4: -1, 5: 1, 6: 1, 7: -1}),
    31: ({5, 7}, {14, 10}, {0: -1, 4: -1, 2: 1, 6: 1}),
    32: ({0, 2, 1, 3}, {15}, {0: 1, 1: -1, 2: -1, 3: 1}),
    35: ({8, 0, 13, 5}, {0, 2, 5, 7}, {10: 1, 15: 1}),
    40: ({12, 4, 8, 0}, {0, 2, 1, 3}, {15: 1}),
    48: ({3, 11, 7, 15}, {12, 14, 13, 15}, {0: 1}),
}


def test_two_levels_of_instances():
    made = instances(power(STRASSEN, 2))
    assert len(made) == 49
    for number, (a, b, c) in FIGURE_5.items():
        one = made[number]
        assert ({k for k, _ in one.a}, {k for k, _ in one.b}) == (a, b), number
        assert dict(one.c) == c, number
    assert all(abs(s) == 1 for i in made for _, s in (*i.a, *i.b, *i.c))


def test_variants():
    """Figure 6."""
    assert {v: len(r) for v, r in variants(STANDARD).items()} == {(1, 1, 1): 1}
    assert {v: len(r) for v, r in variants(STRASSEN).items()} == {
        (2, 2, 2): 1, (2, 2, 1): 2, (1, 2, 2): 2, (2, 1, 2): 2,
    }  # fmt: skip
    assert {v: len(r) for v, r in variants(power(STRASSEN, 2)).items()} == {
        (4, 4, 4): 1, (1, 4, 4): 4, (2, 4, 4): 4, (4, 1, 4): 4, (4, 2, 4): 4, (4, 4, 1): 4,
        (4, 4, 2): 4, (2, 2, 4): 8, (2, 4, 2): 8, (4, 2, 2): 8,
    }  # fmt: skip


def test_stages():
    """Figure 7, and for every algorithm: all instances once, no two streams on one block."""
    assert stages(STRASSEN) == (((1, 5), (4, 6)), ((2,), (3,)), ((0,), ()))
    for algorithm in (*NAMED.values(), power(STRASSEN, 2)):
        made = instances(algorithm)
        found = stages(algorithm)
        assert Counter(r for s in found for stream in s for r in stream) == Counter(
            range(algorithm.products)
        )
        for first, second in found:
            blocks = [{p for r in stream for p, _ in made[r].c} for stream in (first, second)]
            assert not blocks[0] & blocks[1]


# --- sums in memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", RECURSIVE)
def test_the_programs_multiply(algorithm):
    random = np.random.default_rng(3)
    a, b = random.integers(-9, 9, (2, 6, 6))
    quarters = [(i, j) for i in (0, 1) for j in (0, 1)]
    blocks = {}
    for letter, x in (("A", a), ("B", b)):
        for i, j in quarters:
            blocks[f"{letter}{i + 1}{j + 1}"] = x[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
    out = np.zeros((6, 6), a.dtype)
    for i, j in quarters:
        blocks[f"C{i + 1}{j + 1}"] = out[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
    program = RECURSIVE[algorithm]
    kit = Kit()
    run(kit, program, blocks, Space(np.full(300, 7, a.dtype)), kit.product)
    for i, j in quarters:
        want = (a @ b)[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
        np.testing.assert_array_equal(out[3 * i : 3 * i + 3, 3 * j : 3 * j + 3], want)
    assert sum(isinstance(s, Product) for s in program) == 7
    assert {k for k in blocks if k.startswith("T")} <= {"T1", "T2"}  # two temporaries, no more


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(
    "algorithm", [*NAMED.values(), STRASSEN.compose(WINOGRAD)], ids=lambda a: a.name
)
def test_every_sum_of_a_level_at_once(algorithm, adds):
    """Any tables, kits that add to what is there and that do not, operands in rows or columns, with
    fringes: what is read in a pass is read before anything is written."""
    random = np.random.default_rng(3)
    kit = Kit()
    for levels in (1, 2) if algorithm.products < 30 else (1,):
        size = [
            p**levels * x + y
            for p, x, y in zip(
                (algorithm.m, algorithm.k, algorithm.n), (3, 2, 5), (0, 1, 2), strict=True
            )
        ]
        a, b = random.integers(-9, 9, size[:2]), np.asfortranarray(random.integers(-9, 9, size[1:]))
        made = plan(algorithm, "batched", levels, tuple(size), 1, adds)
        out, room = (np.full(n, 7, a.dtype) for n in ((size[0], size[2]), made.workspace))
        kit.adds = adds
        execute(kit, made, a, b, out, room)
        np.testing.assert_array_equal(out, a @ b)


def test_passes_of_a_level_at_once():
    """Winograd's C in seven: four products lie in its blocks, one of which is right where it is,
    and the others are added by their own kernels.  No place is taken for products."""
    assert passes_at_once(WINOGRAD, True) == {"A": 8, "B": 8, "C": 7}
    assert passes_at_once(WINOGRAD, False) == {"A": 8, "B": 8, "C": 11}
    for algorithm, sums in ((STRASSEN, 5), (WINOGRAD, 4)):
        for adds in (False, True):
            made = at_once(algorithm, adds)
            assert sum(isinstance(s, Product) for s in made) == 7
            assert len(kinds(made)) == 2 * sums
            assert all(step.reads <= 7 for step in made if isinstance(step, Sums))


# --- rounding ---------------------------------------------------------------------------------


def test_growth_and_bounds():
    assert [growth(a) for a in (STANDARD, STRASSEN, WINOGRAD)] == [1, 12, 18]
    for algorithm in (STRASSEN, WINOGRAD, LADERMAN):
        bounds = [bound_factor(algorithm, level, 1024, 1024, 1024) for level in range(4)]
        assert all(b > a for a, b in pairwise(bounds))


@pytest.mark.parametrize("algorithm", [STRASSEN, WINOGRAD, LADERMAN], ids=lambda a: a.name)
def test_the_bound_holds(algorithm):
    random = np.random.default_rng(5)
    a, b = random.uniform(-1, 1, (2, 72, 72)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for levels in (1, 2):
        made = plan(algorithm, "recursive", levels, (72, 72, 72))
        found, room = np.empty_like(a), np.empty(made.workspace, a.dtype)
        execute(Kit(), made, a, b, found, room)
        bound = bound_factor(algorithm, levels, 72, 72, 72) * 2.0**-24
        assert np.abs(found - exact).max() <= bound * np.abs(a).max() * np.abs(b).max()
