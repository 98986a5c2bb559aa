"""What a cache holds and how nodes agree, without I/O. Time comes as an argument.

The invariant: **two main parts with the same commit time have the same content**, whatever fails in whatever order.

It does not rest on the agreement. The content at T is by definition what the source's history up to T says, and a
node goes to a commit time T only if it can tell that content from what it has read itself (`held`). So it is the same
for two leaders at once, after lost replies, and for nodes that were left behind for a week; what they agree on
(`agreement`) is only which T all go to, and when. Should a source break its word, the fingerprint that comes with the
commit time shows it before anything is served (`cache`).
"""
