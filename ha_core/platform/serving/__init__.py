"""The platform over HTTP: for gateways, which poll it, and for operators and their programs."""
