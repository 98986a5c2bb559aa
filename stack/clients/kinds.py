"""The kinds of client programs."""

PROGRAMS: dict[str, tuple[str, str]] = {
    "confluent-producer": ("confluent_producer", "run"),
    "confluent-transactions": ("confluent_transactions", "run"),
    "java-transactions": ("java_programs", "transactions"),
    "java-3-transactions": ("java_programs", "old_transactions"),
    "java-pattern-reader": ("java_programs", "pattern_reader"),
    "halting-sender": ("halting_sender", "run"),
    "confluent-consumer": ("confluent_consumer", "run"),
    "kafka-python-producer": ("kafka_python", "produce"),
    "kafka-python-consumer": ("kafka_python", "consume"),
    "aiokafka-producer": ("aio_kafka", "produce"),
    "aiokafka-consumer": ("aio_kafka", "consume"),
    "kafkajs-producer": ("kafka_js", "produce"),
    "kafkajs-consumer": ("kafka_js", "consume"),
    "java-producer": ("java_tools", "produce"),
    "java-consumer": ("java_tools", "consume"),
}
"""Kind → (module, function that takes Options and returns an exit code)."""

PRODUCERS = tuple(kind for kind in PROGRAMS if kind.endswith("-producer"))
"""Producers of libraries, without transactions."""
CONSUMERS = tuple(kind for kind in PROGRAMS if kind.endswith("-consumer"))

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_WITHOUT = {"kafkajs": frozenset({"snappy", "lz4", "zstd"})}
"""Library → codecs that it lacks; kafkajs would need further packages for these."""


def knows(kind: str, compression: str) -> bool:
    """Whether a kind of client reads and writes records with this compression."""
    return compression not in _WITHOUT.get(kind.partition("-")[0], ())
