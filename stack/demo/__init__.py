"""`switchyard demo`: clients switch there and back, a topic migrates, a cluster is killed."""
