"""Load what any ``save`` of the package wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from credalset._guessing import explained
from credalset.calibration import Calibration, CrossCalibration, Stream
from credalset.exceptions import FileFormatError
from credalset.labels import LabelCalibration
from credalset.persistence.bundle import Bundle, read_bundle
from credalset.persistence.plain import require
from credalset.persistence.versions import check_versions
from credalset.scores.saved import sets_from_bundle
from credalset.sets.credal_set import CredalSet

if TYPE_CHECKING:
    from torch import nn

    from credalset.classifier import ConformalCredalClassifier
    from credalset.predictors.torch.base import TorchEstimator

WITHOUT_NETWORK: dict[str, Callable[..., Any]] = {
    Calibration.kind: Calibration.from_bundle,
    CrossCalibration.kind: CrossCalibration.from_bundle,
    LabelCalibration.kind: LabelCalibration.from_bundle,
    "stream": Stream.from_bundle,
    "sets": sets_from_bundle,
}


@explained
def load(
    path: str | Path, *, trusted: Sequence[str] = (), module: nn.Module | None = None
) -> (
    Calibration | CrossCalibration | LabelCalibration | Stream | CredalSet | ConformalCredalClassifier | TorchEstimator
):
    """Load what the ``save`` of a calibration, a stream, sets, a classifier or a network wrote.

    Parameters
    ----------
    path : str or Path
        The directory given to ``save``.
    trusted : sequence of str
        Full names of estimator types from outside scikit-learn and credalset that may be built while loading. Loading
        refuses any other type and names it, so that you can decide.
    module : nn.Module, optional
        For a `TorchPredictor`: an object of the class that was saved, which takes over the saved weights. Code is not
        saved, so credalset cannot build it.

    Returns
    -------
    Calibration, CrossCalibration, LabelCalibration, Stream, CredalSet, ConformalCredalClassifier or estimator

    Examples
    --------
    >>> import tempfile, credalset as cs
    >>> data = cs.datasets.make_synthetic(100, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, score="kl")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibration.save(f"{folder}/kl")
    ...     cs.load(f"{folder}/kl")
    Calibration: score kl, 100 items, 3 classes
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of type names, but is the string {trusted!r}. Write [{trusted!r}].")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the directory that save() wrote, as a string or a Path, but is {path!r}.")
    bundle = read_bundle(path)
    remark = check_versions(bundle.versions, bundle.files, path)
    try:
        loaded = _build(bundle, trusted, module)
        require(not bundle.arrays, f"holds arrays that do not belong to it: {', '.join(bundle.arrays)}.")
        return loaded
    except FileFormatError as error:
        raise FileFormatError(f"{path} {error}{remark}") from error.__cause__


def _build(bundle: Bundle, trusted: Sequence[str], module: Any) -> Any:
    """Ask the room that an object belongs to to put it together."""
    if bundle.kind in WITHOUT_NETWORK:
        if module is not None:
            raise ValueError(f"module was given, but a {bundle.kind} has no network. Load it without module.")
        return WITHOUT_NETWORK[bundle.kind](bundle)
    if bundle.kind == "classifier":
        from credalset.classifier import ConformalCredalClassifier  # and with it scikit-learn, which takes a second

        return ConformalCredalClassifier.from_bundle(bundle, trusted, module)
    if bundle.kind == "estimator":
        from credalset.predictors.saved import load_estimator

        return load_estimator(bundle.files, bundle.values, trusted, module)
    raise FileFormatError(f"holds a {bundle.kind!r}, which this version of credalset does not know.")
