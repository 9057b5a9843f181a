"""Floor 1: what is computed. Graphs, operations, tensors, and the registry where an op is declared once.

Imports ``base`` alone. ``ops`` declares into the registry, ``plan`` and ``runtime`` read it.
"""
