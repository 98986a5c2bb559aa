"""Authentication of clients: accounts, keys and tokens. Slow checks are separate, for threads beside the event loop."""
