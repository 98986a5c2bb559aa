"""Client quotas (KIP-546). `tables` explains the notation."""

from ha_core.wire.tables import read

SCHEMAS = read("""
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
""")
