"""The gateway's own connections to every broker of every cluster."""

from gateway.links.cluster import ClusterLink
from gateway.links.dial import DialError, dial
from gateway.links.links import Links

__all__ = ["ClusterLink", "DialError", "Links", "dial"]
