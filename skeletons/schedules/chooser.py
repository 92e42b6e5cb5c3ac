"""Choosers: how the layers that a schedule leaves open are chosen."""

from __future__ import annotations

from .layers import Layer


class Chooser(Layer):
    """The base class of choosers."""

    slot = "chooser"


class Auto(Chooser):
    """The model chooses, without running anything. As a schedule, it fixes no layer.

    >>> Auto() | Auto(), Auto() == Auto() | Auto()
    (Auto(), True)
    """


class Tuned(Chooser):
    """The fastest measured schedule, or the choice of ``Auto`` until one has been measured.

    >>> Tuned()
    Tuned()
    """
