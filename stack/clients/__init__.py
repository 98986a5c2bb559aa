"""Ordinary Kafka clients as processes of their own that write down what they saw.

`python -m stack.clients KIND --bootstrap … --topic … --client … --out FILE` runs one;
`stack.clients.process.ClientProcess`
starts and ends one from Python. The libraries run with their defaults but for what an option names.
"""
