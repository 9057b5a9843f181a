"""Floor 0: errors, dtypes, shapes, names, clock, threads, the loop. Imports nothing of the package above it."""
