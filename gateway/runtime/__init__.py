"""The event loop's hygiene: its clock, offloaded work, garbage collection, descriptors, rates of log lines."""
