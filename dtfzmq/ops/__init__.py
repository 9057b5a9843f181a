"""Floor 2: the op library. One declaration per op, in families. Imports graph/ and base/ alone."""
