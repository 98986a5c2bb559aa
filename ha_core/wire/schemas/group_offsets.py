"""Offsets that groups commit. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
OFFSET_COMMIT 2-8
  request
    group_id                      string 2+
    generation_id_or_member_epoch int32  2+ = -1
    member_id                     string 2+
    group_instance_id             string 7+ null = null
    retention_time_ms             int64  2-4 = -1
    topics                        []     2+
      name                        string 2+
      partitions                  []     2+
        partition_index           int32  2+
        committed_offset          int64  2+
        committed_leader_epoch    int32  6+ = -1
        committed_metadata        string 2+ null
  response
    throttle_time_ms    int32  3+
    topics              []     2+
      name              string 2+
      partitions        []     2+
        partition_index int32  2+
        error_code      int16  2+

OFFSET_FETCH 1-8
  request
    group_id              string  1-7
    topics                []      1-7 null 2-7
      name                string  1-7
      partition_indexes   []int32 1-7
    groups                []      8+
      group_id            string  8+
      topics              []      8+ null
        name              string  8+
        partition_indexes []int32 8+
    require_stable        bool    7+
  response
    throttle_time_ms             int32  3+
    topics                       []     1-7
      name                       string 1-7
      partitions                 []     1-7
        partition_index          int32  1-7
        committed_offset         int64  1-7
        committed_leader_epoch   int32  5-7 = -1
        metadata                 string 1-7 null
        error_code               int16  1-7
    error_code                   int16  2-7
    groups                       []     8+
      group_id                   string 8+
      topics                     []     8+
        name                     string 8+
        partitions               []     8+
          partition_index        int32  8+
          committed_offset       int64  8+
          committed_leader_epoch int32  8+ = -1
          metadata               string 8+ null
          error_code             int16  8+
      error_code                 int16  8+

OFFSET_DELETE 0-0
  request
    group_id            string 0+
    topics              []     0+
      name              string 0+
      partitions        []     0+
        partition_index int32  0+
  response
    error_code          int16  0+
    throttle_time_ms    int32  0+
    topics              []     0+
      name              string 0+
      partitions        []     0+
        partition_index int32  0+
        error_code      int16  0+
""")
