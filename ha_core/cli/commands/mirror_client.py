"""`mirror-client`: the queries of Kafka's MirrorClient and RemoteClusterUtils, and MirrorMaker 2's internal topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ha_core.cli.command import CommandResult, CommandRun, OptionGroup, command, option
from ha_core.flows.errors import MirrorClientError
from ha_core.flows.policies import DefaultPolicy, IdentityPolicy
from ha_core.flows.properties import read
from ha_core.flows.translation import Translated
from ha_core.model.linear_pattern import LinearPattern, PatternError
from ha_core.present.page import Table

if TYPE_CHECKING:
    from ha_core.mirror_client import MirrorClient


class PolicyName(StrEnum):
    DEFAULT = "default"
    IDENTITY = "identity"


Alias = Annotated[str, typer.Argument(metavar="ALIAS", help="Alias of the other cluster in the flows' file.")]


@dataclass(frozen=True)
class ClientOptions(OptionGroup):
    """The cluster to query, and how its remote topics are named."""

    bootstrap: Annotated[
        str | None, option("Brokers of the cluster to query, host:port[,host:port…]. Default: the file's.")
    ] = None
    command_config: Annotated[
        Path | None, option("A Java client's properties for this cluster, as for Kafka's own tools.")
    ] = None
    config: Annotated[Path | None, option("librdkafka's properties for this cluster, such as security.protocol.")] = (
        None
    )
    policy: Annotated[PolicyName, option("The flows' replication policy.")] = PolicyName.DEFAULT
    separator: Annotated[str, option("replication.policy.separator.")] = "."
    plain_internal: Annotated[
        bool, option("Internal topics use the dot: internal.topic.separator.enabled is false.")
    ] = False
    like_3_9: Annotated[bool, option("Recognise internal topics as Kafka 3.9 does.", "--like-3.9")] = False
    source_alias: Annotated[str | None, option("Source of all remote topics, for the identity policy.")] = None
    timeout_s: Annotated[float, option("Seconds until the command gives up.")] = 30.0

    def client(self, session: CommandRun) -> MirrorClient:
        from ha_core.mirror_client import MirrorClient

        names = (self.separator, not self.plain_internal, self.like_3_9)
        keeps_names = self.policy is PolicyName.IDENTITY
        policy = IdentityPolicy(*names, self.source_alias) if keeps_names else DefaultPolicy(*names)
        return MirrorClient(self.settings(session), policy, self.timeout_s)

    def settings(self, session: CommandRun) -> Mapping[str, Any]:
        from ha_core.mirror_client import java_properties

        if self.command_config and self.config:
            raise typer.BadParameter("give --command-config (a Java client's file) or --config (librdkafka's)")
        if self.command_config:
            found = java_properties(self.command_config, self.bootstrap)
            for remark in found.remarks:
                session.out.progress(f"{self.command_config}: {remark.text}")
            return found.settings
        properties = {key: found.value for key, found in read(self.config).items()} if self.config else {}
        properties |= {"bootstrap.servers": self.bootstrap} if self.bootstrap else {}
        if not properties.get("bootstrap.servers"):
            raise typer.BadParameter("no brokers are given: give --bootstrap, or bootstrap.servers in the file")
        return properties


@command("mirror-client hops", "Show the smallest number of hops from a cluster to this one; -1: no heartbeats arrive.")
def hops(session: CommandRun, alias: Alias, client: ClientOptions) -> CommandResult:
    with closing(client.client(session)) as asked:
        found = asked.replication_hops(alias)
    return CommandResult({"alias": alias, "hops": found}, (str(found),))


@command("mirror-client upstream-clusters", "List the clusters whose heartbeats arrive here, over any number of hops.")
def upstream_clusters(session: CommandRun, client: ClientOptions) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _names(asked.upstream_clusters())


@command("mirror-client heartbeat-topics", "List the heartbeats topics in this cluster.")
def heartbeat_topics(session: CommandRun, client: ClientOptions) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _names(asked.heartbeat_topics())


@command("mirror-client checkpoint-topics", "List the checkpoints topics in this cluster.")
def checkpoint_topics(session: CommandRun, client: ClientOptions) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _names(asked.checkpoint_topics())


@command("mirror-client remote-topics", "List the remote topics in this cluster, from all clusters or one.")
def remote_topics(
    session: CommandRun,
    client: ClientOptions,
    source: Annotated[str | None, option("Only topics that the last hop copied from this cluster.")] = None,
) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _names(asked.remote_topics(source))


@command("mirror-client translate", "Translate a partition's offsets exactly, by the notes of a flow's copier.")
def translate(
    session: CommandRun,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="SOURCE->TARGET, by the aliases of the flows' file.")],
    partition: Annotated[str, typer.Argument(metavar="PARTITION", help="Partition of the remote topic: TOPIC-NUMBER.")],
    offsets: Annotated[list[int], typer.Argument(metavar="OFFSET…", help="Next offsets to read in the source.")],
    client: ClientOptions,
) -> CommandResult:
    from ha_core.mirror_client import exact_maps

    topic, dash, number = partition.rpartition("-")
    if not dash or not number.isdecimal():
        raise typer.BadParameter(f"{partition!r} is not a partition; write it as in primary.orders-0")
    found = exact_maps(client.settings(session), flow, [(topic, int(number))], client.timeout_s)
    exact = found.get((topic, int(number)))
    if exact is None:
        raise MirrorClientError(f"no copier of {flow} has notes of {partition}: no Switchyard worker has copied it")
    translations = {offset: exact.translate(offset) for offset in offsets}
    rows = [
        (str(offset), str(one.offset), one.precision) if isinstance(one, Translated) else (str(offset), "-", one.reason)
        for offset, one in translations.items()
    ]
    document = {str(offset): one._asdict() for offset, one in translations.items()}
    return CommandResult(document, (Table(("offset", "offset here", "precision"), rows),))


@command(
    "mirror-client offsets", "Show the offsets here at which another cluster's groups resume, by their checkpoints."
)
def offsets(
    session: CommandRun,
    alias: Alias,
    client: ClientOptions,
    groups: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]…", help="Names. Default: all.")] = None,
    pattern: Annotated[str | None, option("Groups whose whole name matches this regular expression.")] = None,
) -> CommandResult:
    if groups and pattern:
        raise typer.BadParameter("give groups or --pattern, not both")
    try:
        wanted = LinearPattern(pattern or ".*")
    except PatternError as error:
        raise typer.BadParameter(f"--pattern is no regular expression: {error}") from None
    with closing(client.client(session)) as asked:
        found = asked.remote_consumer_offsets(groups or wanted, alias)
    document = [
        {"group": group, "topic": topic, "partition": partition, **committed._asdict()}
        for group, its in sorted(found.items())
        for (topic, partition), committed in sorted(its.items())
    ]
    columns = ("group", "topic", "partition", "offset", "metadata")
    return CommandResult(document, (Table(columns, [[row[column] for column in columns] for row in document]),))


@command("mirror-client dump-heartbeats", "Print heartbeats as Kafka's HeartbeatFormatter does.")
def dump_heartbeats(
    session: CommandRun,
    client: ClientOptions,
    topic: Annotated[str, typer.Argument(metavar="[TOPIC]", help="One of `heartbeat-topics`.")] = "heartbeats",
) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _records(asked.heartbeats(topic))


@command("mirror-client dump-checkpoints", "Print checkpoints as Kafka's CheckpointFormatter does.")
def dump_checkpoints(session: CommandRun, alias: Alias, client: ClientOptions) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _records(asked.checkpoints(alias))


@command("mirror-client dump-offset-syncs", "Print offset syncs as Kafka's OffsetSyncFormatter does.")
def dump_offset_syncs(session: CommandRun, alias: Alias, client: ClientOptions) -> CommandResult:
    with closing(client.client(session)) as asked:
        return _records(asked.offset_syncs(alias))


def _names(found: Iterable[str]) -> CommandResult:
    names = sorted(found)
    return CommandResult(names, tuple(names))


def _records(found: Iterable[Any]) -> CommandResult:
    lines = tuple(map(str, found))
    return CommandResult(lines, lines)
