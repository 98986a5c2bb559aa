"""Facts about clusters that planners judge, and what follows from them: settings, limits, lag."""
