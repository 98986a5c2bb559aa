"""Metadata of a cluster, and API versions of its brokers. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
METADATA 0-13
  request
    topics                                []     null 1+
      topic_id                            uuid   10+
      name                                string null 10+
    allow_auto_topic_creation             bool   4+ = true
    include_cluster_authorized_operations bool   8-10
    include_topic_authorized_operations   bool   8+
  response
    throttle_time_ms              int32   3+
    brokers                       []
      node_id                     int32
      host                        string
      port                        int32
      rack                        string  1+ null = null
    cluster_id                    string  2+ null = null
    controller_id                 int32   1+ = -1
    topics                        []
      error_code                  int16
      name                        string  null 12+
      topic_id                    uuid    10+
      is_internal                 bool    1+
      partitions                  []
        error_code                int16
        partition_index           int32
        leader_id                 int32
        leader_epoch              int32   7+ = -1
        replica_nodes             []int32
        isr_nodes                 []int32
        offline_replicas          []int32 5+
      topic_authorized_operations int32   8+ = -2147483648
    cluster_authorized_operations int32   8-10 = -2147483648
    error_code                    int16   13+

FIND_COORDINATOR 0-4
  request
    key              string   0-3
    key_type         int8     1+
    coordinator_keys []string 4+
  response
    throttle_time_ms int32  1+
    error_code       int16  0-3
    error_message    string 1-3 null
    node_id          int32  0-3
    host             string 0-3
    port             int32  0-3
    coordinators     []     4+
      key            string
      node_id        int32
      host           string
      port           int32
      error_code     int16
      error_message  string null

API_VERSIONS 0-4
  request
    client_software_name    string 3+
    client_software_version string 3+
  response
    error_code               int16
    api_keys                 []
      api_key                int16
      min_version            int16
      max_version            int16
    throttle_time_ms         int32  1+
    supported_features       []     3+ tag 0
      name                   string
      min_version            int16
      max_version            int16
    finalized_features_epoch int64  3+ tag 1 = -1
    finalized_features       []     3+ tag 2
      name                   string
      max_version_level      int16
      min_version_level      int16
    zk_migration_ready       bool   3+ tag 3

DESCRIBE_CLUSTER 0-1
  request
    include_cluster_authorized_operations bool
    endpoint_type                         int8 1+ = 1
  response
    throttle_time_ms              int32
    error_code                    int16
    error_message                 string null = null
    endpoint_type                 int8   1+ = 1
    cluster_id                    string
    controller_id                 int32  = -1
    brokers                       []
      broker_id                   int32
      host                        string
      port                        int32
      rack                        string null = null
    cluster_authorized_operations int32  = -2147483648

DESCRIBE_LOG_DIRS 1-4
  request
    topics       []      null
      topic      string
      partitions []int32
  response
    throttle_time_ms      int32
    error_code            int16  3+
    results               []
      error_code          int16
      log_dir             string
      topics              []
        name              string
        partitions        []
          partition_index int32
          partition_size  int64
          offset_lag      int64
          is_future_key   bool
      total_bytes         int64  4+ = -1
      usable_bytes        int64  4+ = -1
""")
