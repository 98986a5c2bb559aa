"""A gateway of several processes: the parent starts and ends the workers, and serves their common pages."""
