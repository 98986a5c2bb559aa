"""Producer ids and transactions. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
INIT_PRODUCER_ID 0-4
  request
    transactional_id       string null
    transaction_timeout_ms int32
    producer_id            int64  3+ = -1
    producer_epoch         int16  3+ = -1
  response
    throttle_time_ms int32
    error_code       int16
    producer_id      int64 = -1
    producer_epoch   int16

ADD_PARTITIONS_TO_TXN 0-3
  request
    transactional_id string
    producer_id      int64
    producer_epoch   int16
    topics           []
      name           string
      partitions     []int32
  response
    throttle_time_ms         int32
    results_by_topic         []
      name                   string
      results_by_partition   []
        partition_index      int32
        partition_error_code int16

ADD_OFFSETS_TO_TXN 0-3
  request
    transactional_id string
    producer_id      int64
    producer_epoch   int16
    group_id         string
  response
    throttle_time_ms int32
    error_code       int16

END_TXN 0-3
  request
    transactional_id string
    producer_id      int64
    producer_epoch   int16
    committed        bool
  response
    throttle_time_ms int32
    error_code       int16

TXN_OFFSET_COMMIT 0-3
  request
    transactional_id           string
    group_id                   string
    producer_id                int64
    producer_epoch             int16
    generation_id              int32  3+ = -1
    member_id                  string 3+
    group_instance_id          string 3+ null = null
    topics                     []
      name                     string
      partitions               []
        partition_index        int32
        committed_offset       int64
        committed_leader_epoch int32  2+ = -1
        committed_metadata     string null
  response
    throttle_time_ms    int32
    topics              []
      name              string
      partitions        []
        partition_index int32
        error_code      int16

DESCRIBE_PRODUCERS 0-0
  request
    topics              []
      name              string
      partition_indexes []int32
  response
    throttle_time_ms               int32
    topics                         []
      name                         string
      partitions                   []
        partition_index            int32
        error_code                 int16
        error_message              string null = null
        active_producers           []
          producer_id              int64
          producer_epoch           int32
          last_sequence            int32  = -1
          last_timestamp           int64  = -1
          coordinator_epoch        int32
          current_txn_start_offset int64  = -1

DESCRIBE_TRANSACTIONS 0-0
  request
    transactional_ids []string
  response
    throttle_time_ms            int32
    transaction_states          []
      error_code                int16
      transactional_id          string
      transaction_state         string
      transaction_timeout_ms    int32
      transaction_start_time_ms int64
      producer_id               int64
      producer_epoch            int16
      topics                    []
        topic                   string
        partitions              []int32

LIST_TRANSACTIONS 0-1
  request
    state_filters       []string
    producer_id_filters []int64
    duration_filter     int64    1+ = -1
  response
    throttle_time_ms      int32
    error_code            int16
    unknown_state_filters []string
    transaction_states    []
      transactional_id    string
      producer_id         int64
      transaction_state   string
""")
