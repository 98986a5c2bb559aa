"""Producer ids and transactions. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
INIT_PRODUCER_ID 0-4
  request
    transactional_id       string 0+ null
    transaction_timeout_ms int32  0+
    producer_id            int64  3+ = -1
    producer_epoch         int16  3+ = -1
  response
    throttle_time_ms int32 0+
    error_code       int16 0+
    producer_id      int64 0+ = -1
    producer_epoch   int16 0+

ADD_PARTITIONS_TO_TXN 0-3
  request
    transactional_id string  0+
    producer_id      int64   0+
    producer_epoch   int16   0+
    topics           []      0+
      name           string  0+
      partitions     []int32 0+
  response
    throttle_time_ms         int32  0+
    results_by_topic         []     0+
      name                   string 0+
      results_by_partition   []     0+
        partition_index      int32  0+
        partition_error_code int16  0+

ADD_OFFSETS_TO_TXN 0-3
  request
    transactional_id string 0+
    producer_id      int64  0+
    producer_epoch   int16  0+
    group_id         string 0+
  response
    throttle_time_ms int32 0+
    error_code       int16 0+

END_TXN 0-3
  request
    transactional_id string 0+
    producer_id      int64  0+
    producer_epoch   int16  0+
    committed        bool   0+
  response
    throttle_time_ms int32 0+
    error_code       int16 0+

TXN_OFFSET_COMMIT 0-3
  request
    transactional_id           string 0+
    group_id                   string 0+
    producer_id                int64  0+
    producer_epoch             int16  0+
    generation_id              int32  3+ = -1
    member_id                  string 3+
    group_instance_id          string 3+ null = null
    topics                     []     0+
      name                     string 0+
      partitions               []     0+
        partition_index        int32  0+
        committed_offset       int64  0+
        committed_leader_epoch int32  2+ = -1
        committed_metadata     string 0+ null
  response
    throttle_time_ms    int32  0+
    topics              []     0+
      name              string 0+
      partitions        []     0+
        partition_index int32  0+
        error_code      int16  0+

DESCRIBE_PRODUCERS 0-0
  request
    topics              []      0+
      name              string  0+
      partition_indexes []int32 0+
  response
    throttle_time_ms               int32  0+
    topics                         []     0+
      name                         string 0+
      partitions                   []     0+
        partition_index            int32  0+
        error_code                 int16  0+
        error_message              string 0+ null = null
        active_producers           []     0+
          producer_id              int64  0+
          producer_epoch           int32  0+
          last_sequence            int32  0+ = -1
          last_timestamp           int64  0+ = -1
          coordinator_epoch        int32  0+
          current_txn_start_offset int64  0+ = -1

DESCRIBE_TRANSACTIONS 0-0
  request
    transactional_ids []string 0+
  response
    throttle_time_ms            int32   0+
    transaction_states          []      0+
      error_code                int16   0+
      transactional_id          string  0+
      transaction_state         string  0+
      transaction_timeout_ms    int32   0+
      transaction_start_time_ms int64   0+
      producer_id               int64   0+
      producer_epoch            int16   0+
      topics                    []      0+
        topic                   string  0+
        partitions              []int32 0+

LIST_TRANSACTIONS 0-1
  request
    state_filters       []string 0+
    producer_id_filters []int64  0+
    duration_filter     int64    1+ = -1
  response
    throttle_time_ms      int32    0+
    error_code            int16    0+
    unknown_state_filters []string 0+
    transaction_states    []       0+
      transactional_id    string   0+
      producer_id         int64    0+
      transaction_state   string   0+
""")
