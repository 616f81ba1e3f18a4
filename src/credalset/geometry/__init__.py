"""Mathematics of the regions, one module per region: plain functions of (center, radius)."""
