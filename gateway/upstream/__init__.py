"""The gateway's own connections to every broker of every cluster."""

from gateway.upstream.cluster import UpstreamCluster
from gateway.upstream.clusters import Upstream
from gateway.upstream.dial import DialError, dial

__all__ = ["DialError", "Upstream", "UpstreamCluster", "dial"]
