"""Floor 3: `Variable`, variable scopes, initializers and the lists of variables of a graph.

Imports go down: base, graph, ops. Nothing here knows of sessions or servers.
"""
