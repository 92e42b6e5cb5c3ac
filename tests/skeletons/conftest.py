"""Blocks of a few elements, so that small arrays have several of them."""

from __future__ import annotations

import pytest

from treadle.skeletons.lower import combining
from treadle.skeletons.lower.elementwise import cpu as generate
from treadle.skeletons.lower.fold import cpu as fold_across, cpu as fold_along
from treadle.skeletons.lower.scan import cpu as scan
from treadle.skeletons.lower.scatter import cpu as permute
from treadle.skeletons.lower.segmented import cpu as fold_seg
from treadle.skeletons.lower.transpose import cpu as transpose
from treadle.skeletons.products import kernel_cpu as matmul


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {
        fold_along: {"BLOCK": 8, "LANE_BLOCK": 5, "LANE_UNITS": 3},
        fold_across: {"ACROSS_ROWS": 6, "ACROSS_COLUMNS": 4, "ACROSS_STEP": 3, "LANE_BLOCK": 5},
        fold_seg: {"SEGMENTS": 2, "HELD": 8},
        scan: {"BLOCK": 16, "STAGE": 8, "GROUPED": 4, "ACROSS_COLUMNS": 5, "ACROSS_STEP": 3},
        permute: {"CHUNK_ELEMENTS": 16, "STAGE": 8, "COPIES": 3, "GATHER": 4},
        matmul: {"ROWS": 8, "COLUMNS": 6, "DEPTH": 5, "STRIP": 3, "TOGETHER": 2},
        generate: {"TASK_BYTES": 512, "TASK_COST": 1 << 14, "TRANSPOSE_COLUMNS": 4,
                   "TRANSPOSE_ROWS": 8},
        transpose: {"SIDE": 8, "ROW_BYTES": 24, "TILES_BYTES": 128, "SHORTEST": 4,
                    "WORTH_HOLDING": 6, "TOGETHER": 2},
        combining: {"GROUP": 3},
    }  # fmt: skip
    for module, values in sizes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
