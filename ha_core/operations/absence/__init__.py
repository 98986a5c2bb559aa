"""What becomes of an origin after the cut: it returns, ages, and is deleted."""
