"""What a cluster is made of, and what its brokers can do. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
METADATA 0-13
  request
    topics                                []     0+ null 1+
      topic_id                            uuid   10+
      name                                string 0+ null 10+
    allow_auto_topic_creation             bool   4+ = true
    include_cluster_authorized_operations bool   8-10
    include_topic_authorized_operations   bool   8+
  response
    throttle_time_ms              int32   3+
    brokers                       []      0+
      node_id                     int32   0+
      host                        string  0+
      port                        int32   0+
      rack                        string  1+ null = null
    cluster_id                    string  2+ null = null
    controller_id                 int32   1+ = -1
    topics                        []      0+
      error_code                  int16   0+
      name                        string  0+ null 12+
      topic_id                    uuid    10+
      is_internal                 bool    1+
      partitions                  []      0+
        error_code                int16   0+
        partition_index           int32   0+
        leader_id                 int32   0+
        leader_epoch              int32   7+ = -1
        replica_nodes             []int32 0+
        isr_nodes                 []int32 0+
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
      key            string 4+
      node_id        int32  4+
      host           string 4+
      port           int32  4+
      error_code     int16  4+
      error_message  string 4+ null

API_VERSIONS 0-4
  request
    client_software_name    string 3+
    client_software_version string 3+
  response
    error_code               int16  0+
    api_keys                 []     0+
      api_key                int16  0+
      min_version            int16  0+
      max_version            int16  0+
    throttle_time_ms         int32  1+
    supported_features       []     3+ tag 0
      name                   string 3+
      min_version            int16  3+
      max_version            int16  3+
    finalized_features_epoch int64  3+ tag 1 = -1
    finalized_features       []     3+ tag 2
      name                   string 3+
      max_version_level      int16  3+
      min_version_level      int16  3+
    zk_migration_ready       bool   3+ tag 3

DESCRIBE_CLUSTER 0-1
  request
    include_cluster_authorized_operations bool 0+
    endpoint_type                         int8 1+ = 1
  response
    throttle_time_ms              int32  0+
    error_code                    int16  0+
    error_message                 string 0+ null = null
    endpoint_type                 int8   1+ = 1
    cluster_id                    string 0+
    controller_id                 int32  0+ = -1
    brokers                       []     0+
      broker_id                   int32  0+
      host                        string 0+
      port                        int32  0+
      rack                        string 0+ null = null
    cluster_authorized_operations int32  0+ = -2147483648

DESCRIBE_LOG_DIRS 1-4
  request
    topics       []      1+ null
      topic      string  1+
      partitions []int32 1+
  response
    throttle_time_ms      int32  1+
    error_code            int16  3+
    results               []     1+
      error_code          int16  1+
      log_dir             string 1+
      topics              []     1+
        name              string 1+
        partitions        []     1+
          partition_index int32  1+
          partition_size  int64  1+
          offset_lag      int64  1+
          is_future_key   bool   1+
      total_bytes         int64  4+ = -1
      usable_bytes        int64  4+ = -1
""")
