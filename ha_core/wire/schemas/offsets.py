"""Offsets of logs: list, by leader epoch, delete records. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
LIST_OFFSETS 1-7
  request
    replica_id               int32  1+
    isolation_level          int8   2+
    topics                   []     1+
      name                   string 1+
      partitions             []     1+
        partition_index      int32  1+
        current_leader_epoch int32  4+ = -1
        timestamp            int64  1+
  response
    throttle_time_ms    int32  2+
    topics              []     1+
      name              string 1+
      partitions        []     1+
        partition_index int32  1+
        error_code      int16  1+
        timestamp       int64  1+ = -1
        offset          int64  1+ = -1
        leader_epoch    int32  4+ = -1

OFFSET_FOR_LEADER_EPOCH 2-4
  request
    replica_id               int32  3+ = -2
    topics                   []     2+
      topic                  string 2+
      partitions             []     2+
        partition            int32  2+
        current_leader_epoch int32  2+ = -1
        leader_epoch         int32  2+
  response
    throttle_time_ms int32  2+
    topics           []     2+
      topic          string 2+
      partitions     []     2+
        error_code   int16  2+
        partition    int32  2+
        leader_epoch int32  2+ = -1
        end_offset   int64  2+ = -1

DELETE_RECORDS 0-2
  request
    topics              []     0+
      name              string 0+
      partitions        []     0+
        partition_index int32  0+
        offset          int64  0+
    timeout_ms          int32  0+
  response
    throttle_time_ms    int32  0+
    topics              []     0+
      name              string 0+
      partitions        []     0+
        partition_index int32  0+
        low_watermark   int64  0+
        error_code      int16  0+
""")
