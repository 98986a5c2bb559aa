"""The data path and offsets of logs. Produce stops at 9; only copiers use fetch 13 (see `apis`).

`tables` explains the notation.
"""

from ha_core.wire.tables import read

SCHEMAS = read("""
PRODUCE 3-9
  request
    transactional_id string  null = null
    acks             int16
    timeout_ms       int32
    topic_data       []
      name           string
      partition_data []
        index        int32
        records      records null
  response
    responses                       []
      name                          string
      partition_responses           []
        index                       int32
        error_code                  int16
        base_offset                 int64
        log_append_time_ms          int64  = -1
        log_start_offset            int64  5+ = -1
        record_errors               []     8+
          batch_index               int32
          batch_index_error_message string null = null
        error_message               string 8+ null = null
    throttle_time_ms                int32

FETCH 4-13
  request
    cluster_id               string  12+ null tag 0 = null
    replica_id               int32   = -1
    max_wait_ms              int32
    min_bytes                int32
    max_bytes                int32   = 0x7fffffff
    isolation_level          int8
    session_id               int32   7+
    session_epoch            int32   7+ = -1
    topics                   []
      topic                  string  4-12
      topic_id               uuid    13+
      partitions             []
        partition            int32
        current_leader_epoch int32   9+ = -1
        fetch_offset         int64
        last_fetched_epoch   int32   12+ = -1
        log_start_offset     int64   5+ = -1
        partition_max_bytes  int32
    forgotten_topics_data    []      7+
      topic                  string  7-12
      topic_id               uuid    13+
      partitions             []int32
    rack_id                  string  11+
  response
    throttle_time_ms           int32
    error_code                 int16   7+
    session_id                 int32   7+
    responses                  []
      topic                    string  4-12
      topic_id                 uuid    13+
      partitions               []
        partition_index        int32
        error_code             int16
        high_watermark         int64
        last_stable_offset     int64   = -1
        log_start_offset       int64   5+ = -1
        diverging_epoch        {}      12+ tag 0
          epoch                int32   = -1
          end_offset           int64   = -1
        current_leader         {}      12+ tag 1
          leader_id            int32   = -1
          leader_epoch         int32   = -1
        snapshot_id            {}      12+ tag 2
          end_offset           int64   = -1
          epoch                int32   = -1
        aborted_transactions   []      null
          producer_id          int64
          first_offset         int64
        preferred_read_replica int32   11+ = -1
        records                records null

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
