"""A cluster that was away: its extents close when it returns, its lost tail is reconciled, or it is given up."""
