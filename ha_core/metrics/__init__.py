"""What processes show to Prometheus: the text, and the port on which it is asked for."""
