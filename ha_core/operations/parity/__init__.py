"""Comparisons of clusters that stand in for each other, and of their schema registries."""
