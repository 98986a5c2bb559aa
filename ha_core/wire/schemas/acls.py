"""ACLs, client quotas (KIP-546), and authentication. `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
DESCRIBE_ACLS 1-3
  request
    resource_type_filter int8
    resource_name_filter string null
    pattern_type_filter  int8   = 3
    principal_filter     string null
    host_filter          string null
    operation            int8
    permission_type      int8
  response
    throttle_time_ms    int32
    error_code          int16
    error_message       string null
    resources           []
      resource_type     int8
      resource_name     string
      pattern_type      int8   = 3
      acls              []
        principal       string
        host            string
        operation       int8
        permission_type int8

CREATE_ACLS 1-3
  request
    creations               []
      resource_type         int8
      resource_name         string
      resource_pattern_type int8   = 3
      principal             string
      host                  string
      operation             int8
      permission_type       int8
  response
    throttle_time_ms int32
    results          []
      error_code     int16
      error_message  string null

DELETE_ACLS 1-3
  request
    filters                []
      resource_type_filter int8
      resource_name_filter string null
      pattern_type_filter  int8   = 3
      principal_filter     string null
      host_filter          string null
      operation            int8
      permission_type      int8
  response
    throttle_time_ms    int32
    filter_results      []
      error_code        int16
      error_message     string null
      matching_acls     []
        error_code      int16
        error_message   string null
        resource_type   int8
        resource_name   string
        pattern_type    int8   = 3
        principal       string
        host            string
        operation       int8
        permission_type int8

DESCRIBE_CLIENT_QUOTAS 0-1
  request
    components    []
      entity_type string
      match_type  int8
      match       string null
    strict        bool
  response
    throttle_time_ms int32
    error_code       int16
    error_message    string null
    entries          [] null
      entity         []
        entity_type  string
        entity_name  string null
      values         []
        key          string
        value        float64

ALTER_CLIENT_QUOTAS 0-1
  request
    entries         []
      entity        []
        entity_type string
        entity_name string null
      ops           []
        key         string
        value       float64
        remove      bool
    validate_only   bool
  response
    throttle_time_ms int32
    entries          []
      error_code     int16
      error_message  string null
      entity         []
        entity_type  string
        entity_name  string null

DESCRIBE_USER_SCRAM_CREDENTIALS 0-0
  request
    users  [] null
      name string
  response
    throttle_time_ms   int32
    error_code         int16
    error_message      string null
    results            []
      user             string
      error_code       int16
      error_message    string null
      credential_infos []
        mechanism      int8
        iterations     int32

SASL_HANDSHAKE 0-1
  request
    mechanism string
  response
    error_code int16
    mechanisms []string

SASL_AUTHENTICATE 0-2
  request
    auth_bytes bytes
  response
    error_code          int16
    error_message       string null
    auth_bytes          bytes
    session_lifetime_ms int64  1+
""")
