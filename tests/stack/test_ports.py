"""Blocks of ports: never shared, and not reused at once."""

from stack import ports


def test_two_stacks_at_once_have_different_blocks() -> None:
    # Given a running stack
    first = ports.claim()
    # When another one starts
    second = ports.claim()
    # Then it has different ports
    assert first.first != second.first
    first.close()
    second.close()


def test_the_block_of_a_stack_that_ended_rests() -> None:
    # Given an ended stack with clients that may still look for it
    ended = ports.claim()
    ended.close()
    # When the next one starts
    following = ports.claim()
    # Then they do not find it there
    assert following.first != ended.first
    following.close()
