"""Where the next votes should go."""

from __future__ import annotations

from credalset.planning.outlook import Outlook
from credalset.planning.plan import plan
from credalset.planning.result import Plan

__all__ = ["Outlook", "Plan", "plan"]
