"""Operations on MirrorMaker 2 flows: declare them in ZooKeeper, withdraw them, and move groups by them."""
