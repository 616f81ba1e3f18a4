"""Which constructor of `Annotations` takes what, for those who try another."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

#: constructors, and names under which they are looked for
DOORS = {
    "from_table": ("from_dataframe", "from_df", "from_long", "from_pandas", "from_polars", "from_votes"),
    "read": ("from_csv", "from_file", "from_json", "load", "read_csv"),
    "from_records": ("from_dict", "from_dicts", "from_json_records", "from_list"),
}

#: attributes that votes do not have, and what is meant
ATTRIBUTES = {
    **{tried: f"Use Annotations.{door}." for door, others in DOORS.items() for tried in others},
    **dict.fromkeys(("cohen_kappa", "fleiss_kappa", "kappa"), "Ask agreement().kappa, of Fleiss."),
    **dict.fromkeys(("alpha", "krippendorff", "krippendorff_alpha"), "Ask agreement().alpha, of Krippendorff."),
    **dict.fromkeys(("iloc", "loc", "reindex"), "Take items by name with select(names), by position with votes[...]."),
    "describe": "Print the votes, or ask agreement().",
    "drop": "Leave out a class by reading the votes with classes=[those to keep] and unknown='drop', a worker by "
    "leaving out its rows (a column of a wide table: worker=[those to keep]), and items by a mask, votes[mask].",
    "entropy": "Ask credalset.simplex.entropy(votes.distributions).",
    "filter": "Take items by a mask: votes[votes.n_votes >= 3].",
    "head": "Take items by position, votes[:5], or ask to_frame().head().",
    "labels": "The names of the classes are .classes, the votes .counts and their shares .distributions.",
    "majority": "Ask distributions.argmax(axis=1), whose numbers are places in .classes.",
    "probabilities": "Shares of votes are .distributions.",
    "proportions": "Shares of votes are .distributions.",
    "save": "Write to_frame().to_csv(path), which Annotations.from_counts reads back from a frame.",
    "summary": "Print the votes, or ask agreement().",
    "to_csv": "Write to_frame().to_csv(path), which Annotations.from_counts reads back from a frame.",
    "to_df": "Ask to_frame().",
}


def way_for(data: Any) -> str:
    """Say which constructor takes data of this kind."""
    if isinstance(data, str | PathLike):
        return f"Files are read by Annotations.read({str(data)!r})."
    if isinstance(data, np.ndarray):
        return "A matrix of items by classes is read by Annotations.from_counts or Annotations.from_distributions."
    if isinstance(data, Mapping) and any(isinstance(value, Mapping) for value in data.values()):
        return "Counts by item are read by Annotations.from_records."
    return (
        "Use Annotations.from_table for a vote per row, from_wide for a column per annotator, from_counts for a column "
        "of counts per class, from_records for dicts."
    )
