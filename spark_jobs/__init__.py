"""PySpark jobs over whole fleets: recording facts, suggesting cuts, finding aged extents, verifying and copying."""
