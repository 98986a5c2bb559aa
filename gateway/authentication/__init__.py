"""Who clients are: accounts, keys and tokens. What takes long is told apart, for threads beside the event loop."""
