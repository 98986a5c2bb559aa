"""Follows sources of changes while the gateway runs. Each file follows one source, by the way that the source has:

- `followed_file`: a file of access rules or discovery settings, looked at once a second and read as a whole.
- `platform`: users, rules and settings of the platform, by caches on whose content all gateways agree.
- `quotas`: quotas in ZooKeeper, by watches.
- `copies`, `quota_shares`: positions of copies and the use of quotas, polled, since they change all the time.
- `targets`: leaders in the targets of crossing topics, looked for when a map comes.
"""
