"""Score tables on many machines (extra ``dask``); see `score_parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from credalset.exceptions import MissingExtraError
from credalset.tables.parts import Summary, score_parquet


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Any]:
    """Start single-threaded worker processes on this machine and yield a Dask client of theirs."""
    try:
        from dask import distributed as dask
    except ModuleNotFoundError:
        raise MissingExtraError("Scoring with several workers", "distributed", "dask") from None
    cluster_type: Any = dask.LocalCluster
    client_type: Any = dask.Client
    options: dict[str, Any] = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
        "env": {"CREDALSET_NUM_THREADS": "1"},
    }
    with cluster_type(n_workers=n_workers, **options) as cluster, client_type(cluster) as client:
        yield client


__all__ = ["Summary", "local_cluster", "score_parquet"]
