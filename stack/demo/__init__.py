"""`switchyard demo`: clients are switched there and back, a topic migrates, a cluster is killed."""
