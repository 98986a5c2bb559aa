"""Use of quotas: rates, and the waits that they demand. No clock, no I/O."""
