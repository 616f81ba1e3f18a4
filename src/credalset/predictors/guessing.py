"""Parameters that an estimator does not have, explained."""

from __future__ import annotations

from typing import Any, ClassVar, Self


class Guessing:
    """Explains parameters that an estimator does not have; comes before ``BaseEstimator`` among the bases."""

    #: what is meant by parameters that are often tried
    _meant: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Explain a parameter that the constructor does not know."""
        for name in params:
            if name in cls._meant:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {cls._meant[name]}")
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones too (``estimator__C``); one that does not exist is told its likely name."""
        try:
            changed: Self = super().set_params(**params)  # type: ignore[misc]
        except ValueError:
            known = self.get_params(deep=True)  # type: ignore[attr-defined]
            for name in params:
                meant = [other for other in known if other.endswith(f"__{name.rsplit('__', 1)[-1]}")]
                if name not in known and (meant or name in self._meant):
                    advice = self._meant.get(name) or f"did you mean {' or '.join(map(repr, meant[:3]))}?"
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}: {advice}") from None
            raise
        return changed
