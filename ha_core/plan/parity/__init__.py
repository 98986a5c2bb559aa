"""Clusters that stand in for each other: their differences."""
