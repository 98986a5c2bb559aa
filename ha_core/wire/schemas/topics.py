"""Topics and partitions. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
CREATE_TOPICS 2-7
  request
    topics               []
      name               string
      num_partitions     int32
      replication_factor int16
      assignments        []
        partition_index  int32
        broker_ids       []int32
      configs            []
        name             string
        value            string  null
    timeout_ms           int32   = 60000
    validate_only        bool
  response
    throttle_time_ms          int32
    topics                    []
      name                    string
      topic_id                uuid   7+
      error_code              int16
      error_message           string null
      topic_config_error_code int16  5+ tag 0
      num_partitions          int32  5+ = -1
      replication_factor      int16  5+ = -1
      configs                 []     5+ null
        name                  string
        value                 string null
        read_only             bool
        config_source         int8   = -1
        is_sensitive          bool

DELETE_TOPICS 1-6
  request
    topics      []       6+
      name      string   null = null
      topic_id  uuid
    topic_names []string 1-5
    timeout_ms  int32
  response
    throttle_time_ms int32
    responses        []
      name           string null 6+
      topic_id       uuid   6+
      error_code     int16
      error_message  string 5+ null = null

CREATE_PARTITIONS 0-3
  request
    topics         []
      name         string
      count        int32
      assignments  []      null
        broker_ids []int32
    timeout_ms     int32
    validate_only  bool
  response
    throttle_time_ms int32
    results          []
      name           string
      error_code     int16
      error_message  string null = null
""")
