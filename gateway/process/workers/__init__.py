"""A gateway of several processes: the parent that starts them, ends them and speaks for all of them."""
