"""Consumer groups: the classic ones, and what is answered of those of KIP-848. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
JOIN_GROUP 0-9
  request
    group_id             string 0+
    session_timeout_ms   int32  0+
    rebalance_timeout_ms int32  1+ = -1
    member_id            string 0+
    group_instance_id    string 5+ null = null
    protocol_type        string 0+
    protocols            []     0+
      name               string 0+
      metadata           bytes  0+
    reason               string 8+ null = null
  response
    throttle_time_ms    int32  2+
    error_code          int16  0+
    generation_id       int32  0+ = -1
    protocol_type       string 7+ null = null
    protocol_name       string 0+ null 7+
    leader              string 0+
    skip_assignment     bool   9+
    member_id           string 0+
    members             []     0+
      member_id         string 0+
      group_instance_id string 5+ null = null
      metadata          bytes  0+

HEARTBEAT 0-4
  request
    group_id          string 0+
    generation_id     int32  0+
    member_id         string 0+
    group_instance_id string 3+ null = null
  response
    throttle_time_ms int32 1+
    error_code       int16 0+

LEAVE_GROUP 0-5
  request
    group_id            string 0+
    member_id           string 0-2
    members             []     3+
      member_id         string 3+
      group_instance_id string 3+ null = null
      reason            string 5+ null = null
  response
    throttle_time_ms    int32  1+
    error_code          int16  0+
    members             []     3+
      member_id         string 3+
      group_instance_id string 3+ null
      error_code        int16  3+

SYNC_GROUP 0-5
  request
    group_id          string 0+
    generation_id     int32  0+
    member_id         string 0+
    group_instance_id string 3+ null = null
    protocol_type     string 5+ null = null
    protocol_name     string 5+ null = null
    assignments       []     0+
      member_id       string 0+
      assignment      bytes  0+
  response
    throttle_time_ms int32  1+
    error_code       int16  0+
    protocol_type    string 5+ null = null
    protocol_name    string 5+ null = null
    assignment       bytes  0+

DESCRIBE_GROUPS 0-5
  request
    groups                        []string 0+
    include_authorized_operations bool     3+
  response
    throttle_time_ms        int32  1+
    groups                  []     0+
      error_code            int16  0+
      group_id              string 0+
      group_state           string 0+
      protocol_type         string 0+
      protocol_data         string 0+
      members               []     0+
        member_id           string 0+
        group_instance_id   string 4+ null = null
        client_id           string 0+
        client_host         string 0+
        member_metadata     bytes  0+
        member_assignment   bytes  0+
      authorized_operations int32  3+ = -2147483648

LIST_GROUPS 0-5
  request
    states_filter []string 4+
    types_filter  []string 5+
  response
    throttle_time_ms int32  1+
    error_code       int16  0+
    groups           []     0+
      group_id       string 0+
      protocol_type  string 0+
      group_state    string 4+
      group_type     string 5+

DELETE_GROUPS 0-2
  request
    groups_names []string 0+
  response
    throttle_time_ms int32  0+
    results          []     0+
      group_id       string 0+
      error_code     int16  0+

CONSUMER_GROUP_HEARTBEAT 0-1
  request
    group_id               string   0+
    member_id              string   0+
    member_epoch           int32    0+
    instance_id            string   0+ null = null
    rack_id                string   0+ null = null
    rebalance_timeout_ms   int32    0+ = -1
    subscribed_topic_names []string 0+ null = null
    subscribed_topic_regex string   1+ null = null
    server_assignor        string   0+ null = null
    topic_partitions       []       0+ null = null
      topic_id             uuid     0+
      partitions           []int32  0+
  response
    throttle_time_ms      int32   0+
    error_code            int16   0+
    error_message         string  0+ null = null
    member_id             string  0+ null = null
    member_epoch          int32   0+
    heartbeat_interval_ms int32   0+
    assignment            {}      0+ null
      topic_partitions    []      0+
        topic_id          uuid    0+
        partitions        []int32 0+

CONSUMER_GROUP_DESCRIBE 0-1
  request
    group_ids                     []string 0+
    include_authorized_operations bool     0+
  response
    throttle_time_ms           int32    0+
    groups                     []       0+
      error_code               int16    0+
      error_message            string   0+ null = null
      group_id                 string   0+
      group_state              string   0+
      group_epoch              int32    0+
      assignment_epoch         int32    0+
      assignor_name            string   0+
      members                  []       0+
        member_id              string   0+
        instance_id            string   0+ null = null
        rack_id                string   0+ null = null
        member_epoch           int32    0+
        client_id              string   0+
        client_host            string   0+
        subscribed_topic_names []string 0+
        subscribed_topic_regex string   0+ null = null
        assignment             {}       0+
          topic_partitions     []       0+
            topic_id           uuid     0+
            topic_name         string   0+
            partitions         []int32  0+
        target_assignment      {}       0+
          topic_partitions     []       0+
            topic_id           uuid     0+
            topic_name         string   0+
            partitions         []int32  0+
        member_type            int8     1+ = -1
      authorized_operations    int32    0+ = -2147483648
""")
