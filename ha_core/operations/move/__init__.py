"""A planned or forced move with a fence, step by step."""
