"""Offsets of logs: list, by leader epoch, delete records. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
LIST_OFFSETS 1-7
  request
    replica_id               int32
    isolation_level          int8   2+
    topics                   []
      name                   string
      partitions             []
        partition_index      int32
        current_leader_epoch int32  4+ = -1
        timestamp            int64
  response
    throttle_time_ms    int32  2+
    topics              []
      name              string
      partitions        []
        partition_index int32
        error_code      int16
        timestamp       int64  = -1
        offset          int64  = -1
        leader_epoch    int32  4+ = -1

OFFSET_FOR_LEADER_EPOCH 2-4
  request
    replica_id               int32  3+ = -2
    topics                   []
      topic                  string
      partitions             []
        partition            int32
        current_leader_epoch int32  = -1
        leader_epoch         int32
  response
    throttle_time_ms int32
    topics           []
      topic          string
      partitions     []
        error_code   int16
        partition    int32
        leader_epoch int32  = -1
        end_offset   int64  = -1

DELETE_RECORDS 0-2
  request
    topics              []
      name              string
      partitions        []
        partition_index int32
        offset          int64
    timeout_ms          int32
  response
    throttle_time_ms    int32
    topics              []
      name              string
      partitions        []
        partition_index int32
        low_watermark   int64
        error_code      int16
""")
