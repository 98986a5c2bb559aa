"""Topics and partitions. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
CREATE_TOPICS 2-7
  request
    topics               []      2+
      name               string  2+
      num_partitions     int32   2+
      replication_factor int16   2+
      assignments        []      2+
        partition_index  int32   2+
        broker_ids       []int32 2+
      configs            []      2+
        name             string  2+
        value            string  2+ null
    timeout_ms           int32   2+ = 60000
    validate_only        bool    2+
  response
    throttle_time_ms          int32  2+
    topics                    []     2+
      name                    string 2+
      topic_id                uuid   7+
      error_code              int16  2+
      error_message           string 2+ null
      topic_config_error_code int16  5+ tag 0
      num_partitions          int32  5+ = -1
      replication_factor      int16  5+ = -1
      configs                 []     5+ null
        name                  string 5+
        value                 string 5+ null
        read_only             bool   5+
        config_source         int8   5+ = -1
        is_sensitive          bool   5+

DELETE_TOPICS 1-6
  request
    topics      []       6+
      name      string   6+ null = null
      topic_id  uuid     6+
    topic_names []string 1-5
    timeout_ms  int32    1+
  response
    throttle_time_ms int32  1+
    responses        []     1+
      name           string 1+ null 6+
      topic_id       uuid   6+
      error_code     int16  1+
      error_message  string 5+ null = null

CREATE_PARTITIONS 0-3
  request
    topics         []      0+
      name         string  0+
      count        int32   0+
      assignments  []      0+ null
        broker_ids []int32 0+
    timeout_ms     int32   0+
    validate_only  bool    0+
  response
    throttle_time_ms int32  0+
    results          []     0+
      name           string 0+
      error_code     int16  0+
      error_message  string 0+ null = null
""")
