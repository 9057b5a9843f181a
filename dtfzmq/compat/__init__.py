"""Floor 6: the public namespaces of TensorFlow 1's API beside the root, one module each."""
