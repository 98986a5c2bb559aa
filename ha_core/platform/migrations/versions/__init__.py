"""One file per migration, each with the revision before it."""
