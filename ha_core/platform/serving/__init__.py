"""The platform over HTTP, for gateways that poll it, and for operators and their programs."""
