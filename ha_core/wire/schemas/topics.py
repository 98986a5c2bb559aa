"""Topics, partitions, and the configuration of topics and brokers. `tables` explains the notation."""

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

DESCRIBE_CONFIGS 1-4
  request
    resources             []
      resource_type       int8
      resource_name       string
      configuration_keys  []string null
    include_synonyms      bool
    include_documentation bool     3+
  response
    throttle_time_ms  int32
    results           []
      error_code      int16
      error_message   string null
      resource_type   int8
      resource_name   string
      configs         []
        name          string
        value         string null
        read_only     bool
        config_source int8   = -1
        is_sensitive  bool
        synonyms      []
          name        string
          value       string null
          source      int8
        config_type   int8   3+
        documentation string 3+ null

ALTER_CONFIGS 0-2
  request
    resources       []
      resource_type int8
      resource_name string
      configs       []
        name        string
        value       string null
    validate_only   bool
  response
    throttle_time_ms int32
    responses        []
      error_code     int16
      error_message  string null
      resource_type  int8
      resource_name  string

INCREMENTAL_ALTER_CONFIGS 0-1
  request
    resources            []
      resource_type      int8
      resource_name      string
      configs            []
        name             string
        config_operation int8
        value            string null
    validate_only        bool
  response
    throttle_time_ms int32
    responses        []
      error_code     int16
      error_message  string null
      resource_type  int8
      resource_name  string
""")
