"""Score tables on many machines (extra ``dask``); see `score_parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from credalset.exceptions import need
from credalset.tables.parts import Summary, score_parquet

#: Dask has its workers give memory back after every array, which costs them a quarter of their time; glibc reads these
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 28, "MALLOC_MMAP_THRESHOLD_": 1 << 26}

PATIENCE = "10s"  # that a scheduler may take to answer


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Any]:
    """Start single-threaded worker processes on this machine and yield a Dask client of theirs."""
    options: dict[str, Any] = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",  # any free port: the usual one may belong to another cluster
        "env": {"CREDALSET_NUM_THREADS": "1"},
    }
    distributed = _dask()
    import dask

    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": MALLOC}),
        distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Yield a client of the Dask scheduler at an address such as ``tcp://host:8786``."""
    try:
        client = _dask().Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        yield client


def _dask() -> Any:
    return need("distributed", "Scoring with several workers", extra="dask")


__all__ = ["Summary", "connect", "local_cluster", "score_parquet"]
