"""What remains of the old package until its callers have moved to `credalset.votes`."""
