"""Accept labels, with a bound on the mean loss among the items that are accepted."""

from credalset.acceptance.rule import Accepted, AcceptRule

__all__ = ["AcceptRule", "Accepted"]


def __dir__() -> list[str]:
    return list(__all__)
