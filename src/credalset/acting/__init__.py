"""What to do with each item: one queue, review, its record, and audits."""
