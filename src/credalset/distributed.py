"""Score tables on many machines (extra ``dask``); see `score_parquet`."""

from __future__ import annotations

from credalset.io.dask import Summary, connect, local_cluster, score_parquet

__all__ = ["Summary", "connect", "local_cluster", "score_parquet"]
