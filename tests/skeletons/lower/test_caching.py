"""Hints: which array gets which policy, and the instructions that say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.cuda.codegen.policies import MODIFIERS
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.dsl.target import CUDA, NATIVE, Target
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.lower.lower import LoweringContext, lower, notes_of
from treadle.skeletons.schedules import Block, Hints, Row

IMAGE = np.arange(21 * 70, dtype=np.float32).reshape(21, 70)


def kernel_of(array: Any, schedule: Any, target: Target = CUDA) -> ir.Kernel:
    context = LoweringContext(target=target, schedule=schedule)
    return lower(array._leaves[0].node, context).kernels[0]


def blur(schedule: Any = None, weights: Any = None) -> Any:
    image = td.use(IMAGE)
    return td.stencil(lambda w: w[-1, 0] + w[0, 0] * 2 + w[0, 1], image, schedule=schedule)


def of(kernel: ir.Kernel) -> dict[str, str]:
    return {b.role: policy for b, policy in kernel.policies}


@pytest.mark.parametrize("policy", list(MODIFIERS))
def test_policies_are_modifiers_of_loads_and_stores(policy: str):
    hints = Hints(vertical=policy, stores=policy)
    text = print_kernel(kernel_of(blur(), Row() | Block(4, 32) | hints))
    place = f".{MODIFIERS[policy]}.nc" if policy == "streaming" else f".nc.{MODIFIERS[policy]}"
    assert f'asm("ld.global{place}.u32 %0, [%1];"' in text
    assert f'asm volatile("st.global.{MODIFIERS[policy]}.u32 [%0], %1;"' in text
    assert f"load_{policy}4<float>(&" in text
    assert f"store_{policy}4<float>(&out[" in text


def test_wide_accesses_have_them_too():
    made = td.map(lambda x: x + 1, td.use(IMAGE))
    kernel = kernel_of(made, Hints(stream="no_l1", stores="streaming"))
    text = print_kernel(kernel)
    assert "ld.global.nc.L1::no_allocate.v2.u64" in text
    assert "st.global.cs.v2.u64" in text
    assert kernel.fallback is not None
    assert of(kernel.fallback) == of(kernel) == {"input": "no_l1", "output": "streaming"}


def test_classes_and_names():
    assert of(kernel_of(blur(), Hints(stream="evict_first"))) == {}
    assert of(kernel_of(blur(), Hints(horizontal="evict_last"))) == {"input": "evict_last"}
    both = Hints(horizontal="evict_last", vertical="no_l1", stores="default")
    assert of(kernel_of(blur(), both)) == {"input": "evict_last"}

    table, places = td.use(IMAGE), td.use(np.zeros((21, 70), np.int64))
    picked = td.generate((21, 70), lambda i, j: table[places[i, j], j])
    kernel = kernel_of(picked, Hints(random="no_l1", stream="streaming"))
    found = {b.type.name: p for b, p in kernel.policies}
    assert found == {"float32": "no_l1", "int64": "streaming"}


def test_an_array_that_the_program_does_not_have():
    @td.jit
    def program(image: Any) -> Any:
        return td.stencil(lambda w: w[-1, 0] + w[0, 0], image, name="blur") + 1

    said = r"blur.*no array named 'picutre'(.|\n)*arrays: .*blur, image"
    wrong = Hints(arrays={"picutre": "no_l1"})
    for backend in ("native", "reference"):
        with td.config(backend=backend), pytest.raises(td.ScheduleError, match=said):
            program.scheduled(blur=wrong)(IMAGE)
    with pytest.raises(td.ScheduleError, match=said):
        program.lower(IMAGE).scheduled(blur=wrong)
    with pytest.raises(td.ScheduleError, match='mean "image"'):
        program.lower(IMAGE).scheduled(blur=Hints(arrays={"imag": "no_l1"}))
    with pytest.raises(td.ScheduleError, match="no array named 'image'"):
        td.run(td.map(lambda x: x + 1, IMAGE, schedule=Hints(arrays={"image": "no_l1"})))


def test_an_array_by_name_goes_first_and_those_of_other_kernels_are_told():
    @td.jit
    def program(image: Any, picture: Any) -> Any:
        hints = Hints(vertical="no_l1", arrays={"image": "evict_last", "picture": "no_l1"})
        return td.stencil(lambda w: w[-1, 0] + w[0, 0], image, schedule=hints), picture

    text = " ".join(program.lower(IMAGE, IMAGE).explain().split())
    node = program.lower(IMAGE, IMAGE).roots[0].node
    context = LoweringContext(CUDA)
    notes = notes_of(lower(node, context), node, context)
    assert "caches: image: evict_last (asked for by name)" in notes
    assert any(n.endswith("this kernel neither reads nor writes picture") for n in notes)
    assert "image: evict_last has no effect on loads of a CPU" in text


def test_hints_change_no_result():
    hints = Hints(stream="no_l1", stores="streaming")
    values = np.random.default_rng(0).random((500, 600))
    for backend in ("native", "reference"):
        plain = td.run(td.map(lambda x: x * 3 + 1, td.use(values)), backend=backend)
        made = td.map(lambda x: x * 3 + 1, td.use(values), schedule=hints)
        np.testing.assert_array_equal(td.run(made, backend=backend), plain)


def test_stores_of_a_cpu_go_past_the_caches():
    from treadle.backend.native.codegen.compile import compile_kernel
    from treadle.backend.native.codegen.fingerprint import fingerprint
    from treadle.backend.native.codegen.target import Target as Cpu

    made = td.map(lambda x: x * 3 + 1, td.use(IMAGE))
    plain, hinted = (kernel_of(made, s, NATIVE) for s in (None, Hints(stores="streaming")))
    assert of(hinted) == {"output": "streaming"}
    target = Cpu.host()
    assert fingerprint(plain, target, False)[0] != fingerprint(hinted, target, False)[0]
    assert compile_kernel(hinted) is not None
