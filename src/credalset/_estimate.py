"""A number that knows how sure it is."""

from __future__ import annotations

from credalset._text import number_text


class Estimate(float):
    """A number that carries its confidence interval: ``value``, ``low``, ``high`` and the sample size ``n``."""

    low: float
    high: float
    n: int

    def __new__(cls, value: float, low: float, high: float, n: int) -> Estimate:
        """Create the estimate; it behaves like the plain number ``value``."""
        self = super().__new__(cls, value)
        self.low, self.high, self.n = float(low), float(high), int(n)
        return self

    def __repr__(self) -> str:
        value, low, high = (number_text(x, missing="nan") for x in (float(self), self.low, self.high))
        return f"{value} [{low}, {high}] (n={self.n})"

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float, int]]:
        return Estimate, (float(self), self.low, self.high, self.n)
