"""Committed offsets of groups. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
OFFSET_COMMIT 2-8
  request
    group_id                      string
    generation_id_or_member_epoch int32  = -1
    member_id                     string
    group_instance_id             string 7+ null = null
    retention_time_ms             int64  2-4 = -1
    topics                        []
      name                        string
      partitions                  []
        partition_index           int32
        committed_offset          int64
        committed_leader_epoch    int32  6+ = -1
        committed_metadata        string null
  response
    throttle_time_ms    int32  3+
    topics              []
      name              string
      partitions        []
        partition_index int32
        error_code      int16

OFFSET_FETCH 1-8
  request
    group_id              string  1-7
    topics                []      1-7 null 2-7
      name                string
      partition_indexes   []int32
    groups                []      8+
      group_id            string
      topics              []      null
        name              string
        partition_indexes []int32
    require_stable        bool    7+
  response
    throttle_time_ms             int32  3+
    topics                       []     1-7
      name                       string
      partitions                 []
        partition_index          int32
        committed_offset         int64
        committed_leader_epoch   int32  5-7 = -1
        metadata                 string null
        error_code               int16
    error_code                   int16  2-7
    groups                       []     8+
      group_id                   string
      topics                     []
        name                     string
        partitions               []
          partition_index        int32
          committed_offset       int64
          committed_leader_epoch int32  = -1
          metadata               string null
          error_code             int16
      error_code                 int16

OFFSET_DELETE 0-0
  request
    group_id            string
    topics              []
      name              string
      partitions        []
        partition_index int32
  response
    error_code          int16
    throttle_time_ms    int32
    topics              []
      name              string
      partitions        []
        partition_index int32
        error_code      int16
""")
