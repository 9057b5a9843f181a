"""Floor 2: the op library. One declaration per op, in families; imports graph/ and base/ alone, never plan/ or runtime/."""
