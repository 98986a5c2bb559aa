"""Going by what was last known of a cluster that is gone."""
