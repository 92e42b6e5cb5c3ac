"""Option prices (Black-Scholes): one map, no temporary arrays."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import treadle as td
from treadle.examples._show import Made, Table, stage
from treadle.examples._timing import race

RATE, VOLATILITY = 0.02, 0.30


def normal(x: td.Scalar) -> td.Scalar:
    """The cumulative normal distribution."""
    return 0.5 * (1 + td.erf(x * 0.7071067811865476))


def price(spot: td.Scalar, strike: td.Scalar, years: td.Scalar) -> tuple[td.Scalar, ...]:
    """The present values of a European call and put."""
    deviation = VOLATILITY * td.sqrt(years)
    d1 = (td.log(spot / strike) + RATE * years) / deviation + deviation / 2
    d2 = d1 - deviation
    later = strike * td.exp(-RATE * years)
    call = spot * normal(d1) - later * normal(d2)
    return call, call + later - spot  # by put-call parity


@td.jit
def prices(spot: td.Array, strike: td.Array, years: td.Array) -> td.Array:
    """(call, put) of every option."""
    return td.map(price, spot, strike, years)


Floats = NDArray[np.float64]


def by_numpy(spot: Floats, strike: Floats, years: Floats) -> tuple[Floats, Floats]:
    """The same in NumPy and SciPy, with an array per step."""
    deviation = VOLATILITY * np.sqrt(years)
    d1 = (np.log(spot / strike) + RATE * years) / deviation + deviation / 2
    later = strike * np.exp(-RATE * years)
    call = spot * ndtr(d1) - later * ndtr(d1 - deviation)
    return call, call + later - spot


def market(n: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Spot prices, strike prices and years to expiry of n options."""
    random = np.random.default_rng(seed)
    return random.uniform(10, 50, n), random.uniform(10, 50, n), random.uniform(0.1, 3, n)


def program() -> td.Program:
    """The program, for any number of options."""
    return prices.lower(*market(64, seed=1))


def main(options: int = 2_000_000, seed: int = 1, shown: int = 6) -> Made:
    """Price many options, print some, and compare the time with NumPy's."""
    stage(f"pricing {options:,} options")
    given = market(options, seed)
    call, put = prices(*given)
    some = zip(*(column[:shown].tolist() for column in (*given, call, put)), strict=True)
    listed = Table("options", ("spot", "strike", "years", "call", "put"), tuple(some))
    raced = race("all options", "NumPy", [(f"{options:,} options", prices, by_numpy, given)])
    return Made({"given": given, "call": call, "put": put}, tables=(listed, raced))
