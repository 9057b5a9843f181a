"""Floor 6: the `dtfzmq` command. May import everything below; reads the environment and prints, which nothing below does."""
