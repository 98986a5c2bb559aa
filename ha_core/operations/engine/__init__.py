"""One operation: its environment, kind, journal, revisions, report, and the gateways that it waits for."""
