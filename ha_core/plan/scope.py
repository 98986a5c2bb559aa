"""What a scope names, and the locks that keep two operations off the same things."""

from __future__ import annotations

from ha_core.model import MoveRequest, MoveSet, Scope


def users_of(scope: Scope) -> tuple[str, ...]:
    """Every user that the scope names, once, in its order."""
    pairs = (*scope.instances, *scope.user_topics, *scope.user_groups)
    return tuple(dict.fromkeys([*scope.users, *(user for user, _ in pairs)]))


def named_in(scope: Scope) -> tuple[str, ...]:
    """The scope's entries in words."""
    return (
        *(f"user {user}" for user in scope.users),
        *(f"user {user}+{instance}" for user, instance in scope.instances),
        *(f"user {user}#{topic}" for user, topic in scope.user_topics),
        *(f"user {user}##{group}" for user, group in scope.user_groups),
        *(f"topic {topic}" for topic in scope.topics),
    )


def lock_keys(request: MoveRequest, moves: MoveSet) -> tuple[str, ...]:
    """Everything that the move writes: `user:NAME`, `topic:NAME`, `group:NAME`, sorted."""
    return tuple(
        sorted(
            {
                *(f"user:{user}" for user in users_of(request.scope)),
                *(f"topic:{topic}" for topic in moves.topics),
                *(f"group:{group}" for group in moves.groups),
            }
        )
    )
