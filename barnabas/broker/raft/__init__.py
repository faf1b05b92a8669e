"""The quorum of controllers: KRaft's Raft, as a core that never waits and touches neither disk, network nor clock."""
