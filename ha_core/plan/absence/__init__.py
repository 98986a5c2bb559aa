"""A cluster that was away: what may be concluded (`decision`), and the four outcomes; what masking stops."""
