"""Answers that are composed of what several clusters say: pure generators, one file per API family.

A handler never does I/O: it yields what it wants to ask and is sent the answers (`ask.Handler`), so that every
order of events can be played in a test.
"""

from gateway.composed.ask import (
    Any_,
    Ask,
    Broker,
    BrokerKey,
    ClusterUnavailableError,
    Context,
    Controller,
    Coordinator,
    Handler,
    Message,
    NeedNodes,
    NodeAddress,
    Reply,
    Target,
)
from gateway.composed.table import handler

__all__ = [
    "Any_",
    "Ask",
    "Broker",
    "BrokerKey",
    "ClusterUnavailableError",
    "Context",
    "Controller",
    "Coordinator",
    "Handler",
    "Message",
    "NeedNodes",
    "NodeAddress",
    "Reply",
    "Target",
    "handler",
]
