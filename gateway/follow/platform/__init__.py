"""What the gateway knows from the platform: users, access rules and settings, by caches that all gateways agree on."""
