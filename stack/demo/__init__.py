"""`switchyard demo`: live clients go from one real cluster to another and back, and a topic without a fence."""
