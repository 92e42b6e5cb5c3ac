"""Who chooses the layers that a schedule leaves open."""

from __future__ import annotations

from .layers import Layer


class Chooser(Layer):
    """Any way to choose what a schedule leaves open."""

    slot = "chooser"


class Auto(Chooser):
    """The model chooses, without running anything; the schedule that fixes no layer.

    >>> Auto() | Auto(), Auto() == Auto() | Auto()
    (Auto(), True)
    """


class Tuned(Chooser):
    """Measurement chooses: the best remembered, or ``Auto`` until something was measured.

    >>> Tuned()
    Tuned()
    """
