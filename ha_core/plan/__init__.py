"""Pure planners and rules: every decision of a move, without I/O, clocks or randomness."""
