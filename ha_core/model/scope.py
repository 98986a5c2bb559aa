"""Scopes: the users, topics and groups to move, as operators write them (`user:NAME##GROUP`, `topic:NAME:0,4-7`)."""

from ha_core.model.document import Part


class Scope(Part):
    """The entries that an operator named."""

    users: tuple[str, ...] = ()
    instances: tuple[tuple[str, str], ...] = ()
    """(user, client id)."""
    user_topics: tuple[tuple[str, str], ...] = ()
    user_groups: tuple[tuple[str, str], ...] = ()
    topics: tuple[str, ...] = ()
    partitions: dict[str, tuple[int, ...]] = {}
    """Partitions to move, for topics that move only in part."""

    @property
    def _of_users(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """Separator before the second name, and the pairs."""
        return ("+", self.instances), ("#", self.user_topics), ("##", self.user_groups)

    @property
    def named_users(self) -> tuple[str, ...]:
        """Its users, each once, in its order."""
        return tuple(dict.fromkeys([*self.users, *(user for _, pairs in self._of_users for user, _ in pairs)]))

    @property
    def entries(self) -> tuple[str, ...]:
        """All entries as operators write them."""
        return (
            *(f"user:{_name(user)}" for user in self.users),
            *(f"user:{_name(user)}{mark}{_name(of)}" for mark, pairs in self._of_users for user, of in pairs),
            *(f"topic:{format_topic(topic, self.partitions.get(topic))}" for topic in self.topics),
        )


def format_topic(name: str, partitions: tuple[int, ...] | None) -> str:
    """`NAME` or `NAME:0,4-7`, percent-encoded where necessary."""
    if partitions is None:
        return _name(name)
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and runs[-1][1] == partition - 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return f"{_name(name)}:{','.join(str(low) if low == high else f'{low}-{high}' for low, high in runs)}"


def _name(text: str) -> str:
    for mark in "%+#":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text
