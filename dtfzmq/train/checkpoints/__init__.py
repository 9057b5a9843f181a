"""Variables in files: TensorFlow's tensor bundles, the `checkpoint` file beside them, and the Saver that keeps both."""
