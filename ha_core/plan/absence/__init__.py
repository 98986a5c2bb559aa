"""A cluster that is away: forced end of a crossing, its return, its loss, masking."""
