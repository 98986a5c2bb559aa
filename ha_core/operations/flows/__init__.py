"""Flows of MirrorMaker 2: declared in ZooKeeper, withdrawn, and groups that follow them."""
