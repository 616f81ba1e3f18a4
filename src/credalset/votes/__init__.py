"""Annotations: votes of annotators on items, label distributions, agreement and names."""
