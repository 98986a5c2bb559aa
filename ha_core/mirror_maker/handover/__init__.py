"""A real MirrorMaker 2 hands its flows over to our copier, and takes them back, on the same internal topics.

From MirrorMaker 2, after it was stopped, before a copier begins::

    state = ConnectState.dedicated("A")
    require_stopped(target, state)
    offsets = read_source_offsets(clusters.librdkafka("B"), state)
    handed = handed_copies(source, target, copies, offsets)     # changes nothing; `exact` and `reason` for people
    begin_copies(source, target, state, handed)                 # fences and seeds; safe to repeat

and to it, each minute and after the copiers have stopped::

    producer = offsets_producer(clusters.librdkafka("B"))
    ensure_offsets_topic(target, state)
    write_source_offsets(producer, state, {copy.source_key: next_source_offset, …})
"""
