"""Silent corruption of a log by its disk: another record, under a valid checksum."""

import google_crc32c

from ha_core.mirror.split import Record, read_records
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import batches
from stack.harness import Stack


def flip(stack: Stack, cluster: str, topic: str, partition: int, below: int = 1 << 62, *, last: bool = False) -> Record:
    """Change the value of a record in the only broker of the cluster, whether it runs or not; as it was before.

    :param below: it lies below this offset. Without headers, and neither packed nor a marker.
    :param last: the last record of the log, and not one in its middle.
    """
    (segment,) = stack.dir.glob(f"**/cluster-{cluster}*/data*/{topic}-{partition}/00000000000000000000.log")
    with segment.open("r+b") as file:
        data = bytearray(file.read())
        found = [b for b in batches(data, 0, len(data)) if not b.attributes & CONTROL and b.last_offset < below]
        batch = found[-1 if last else len(found) // 2]
        record = list(read_records(data, batch))[-1]
        data[batch.end - 2] ^= 1  # after the last value there is only the count of headers
        data[batch.at + 17 : batch.at + 21] = google_crc32c.value(bytes(data[batch.at + 21 : batch.end])).to_bytes(4)
        file.seek(0)
        file.write(data)
    return record
