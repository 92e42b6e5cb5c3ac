"""The data in a page, unpacked as a browser would."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

import numpy as np


def data_of(html: str) -> list[dict[str, Any]]:
    """The programs of a page."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    programs: list[dict[str, Any]] = json.loads(found[1])
    return programs


def table_of(variant: dict[str, Any]) -> np.ndarray:
    """Addresses, one row for each tap."""
    deltas = np.frombuffer(zlib.decompress(base64.b64decode(variant["table"])), "<i4")
    return np.cumsum(deltas).reshape(variant["taps"], -1)


def texts_of(program: dict[str, Any]) -> dict[str, Any]:
    """The kernels and `explain()`."""
    texts: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(program["texts"])))
    return texts
