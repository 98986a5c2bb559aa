"""The content of a cache and the agreement of its nodes, without I/O. Time is passed as an argument.

The invariant: **two main parts with one commit time have equal content**, whatever fails in whatever order.

It does not rest on the agreement. The content at T is defined by the source's history up to T, and a node goes to a
commit time T only if it can tell that content from its own reads (`uncommitted`). So it is equal for two leaders at
once, after lost replies, and for nodes that were away for a week; the nodes agree (`agreement`) only on which T
to go to, and when. If a source breaks its promises, the fingerprint that comes with the commit time shows it before
anything is served (`cache`).
"""
