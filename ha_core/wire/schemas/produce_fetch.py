"""The data path. Produce stops at 9 and fetch at 12 (see `apis`). `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
PRODUCE 3-9
  request
    transactional_id string  3+ null = null
    acks             int16   3+
    timeout_ms       int32   3+
    topic_data       []      3+
      name           string  3+
      partition_data []      3+
        index        int32   3+
        records      records 3+ null
  response
    responses                       []     3+
      name                          string 3+
      partition_responses           []     3+
        index                       int32  3+
        error_code                  int16  3+
        base_offset                 int64  3+
        log_append_time_ms          int64  3+ = -1
        log_start_offset            int64  5+ = -1
        record_errors               []     8+
          batch_index               int32  8+
          batch_index_error_message string 8+ null = null
        error_message               string 8+ null = null
    throttle_time_ms                int32  3+

FETCH 4-12
  request
    cluster_id               string  12+ null tag 0 = null
    replica_id               int32   4+ = -1
    max_wait_ms              int32   4+
    min_bytes                int32   4+
    max_bytes                int32   4+ = 0x7fffffff
    isolation_level          int8    4+
    session_id               int32   7+
    session_epoch            int32   7+ = -1
    topics                   []      4+
      topic                  string  4+
      partitions             []      4+
        partition            int32   4+
        current_leader_epoch int32   9+ = -1
        fetch_offset         int64   4+
        last_fetched_epoch   int32   12+ = -1
        log_start_offset     int64   5+ = -1
        partition_max_bytes  int32   4+
    forgotten_topics_data    []      7+
      topic                  string  7+
      partitions             []int32 7+
    rack_id                  string  11+
  response
    throttle_time_ms           int32   4+
    error_code                 int16   7+
    session_id                 int32   7+
    responses                  []      4+
      topic                    string  4+
      partitions               []      4+
        partition_index        int32   4+
        error_code             int16   4+
        high_watermark         int64   4+
        last_stable_offset     int64   4+ = -1
        log_start_offset       int64   5+ = -1
        diverging_epoch        {}      12+ tag 0
          epoch                int32   12+ = -1
          end_offset           int64   12+ = -1
        current_leader         {}      12+ tag 1
          leader_id            int32   12+ = -1
          leader_epoch         int32   12+ = -1
        snapshot_id            {}      12+ tag 2
          end_offset           int64   4+ = -1
          epoch                int32   4+ = -1
        aborted_transactions   []      4+ null
          producer_id          int64   4+
          first_offset         int64   4+
        preferred_read_replica int32   11+ = -1
        records                records 4+ null
""")
