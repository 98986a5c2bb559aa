"""The commands, in whatever files here: each is a function with `@command`, and found by that alone."""
