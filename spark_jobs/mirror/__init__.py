"""Job `mirror`: keeps the copies of topics in other clusters up to date, until it is stopped."""
