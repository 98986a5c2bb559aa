"""PySpark jobs over whole fleets: facts to remember, offsets to cut at, extents that have aged."""
