"""Input pipelines of queues: examples as messages, producers of names and numbers, batches."""
