"""The event loop's hygiene: its clock, work beside it, the cycle collector, descriptors, rates of log lines."""
