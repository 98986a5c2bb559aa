"""The commands. Each is a function with `@command`, found in any module of this package."""
