"""The gateway's own connections to every broker of every cluster."""
