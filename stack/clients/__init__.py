"""Ordinary Kafka clients as separate processes that record their events.

`python -m stack.clients KIND --bootstrap … --topic … --client … --out FILE` runs one;
`stack.clients.process.ClientProcess`
starts and ends one from Python. The libraries run with their defaults, except for the given options.
"""
