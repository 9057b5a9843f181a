"""Floor 6: the `dtfzmq` command. May import everything; reads the environment and prints, as nothing below does."""
