"""Who is in the cluster and how a step runs over it: specs, peers, worker, master, server.

Floor 3: may import base, graph, wire, ops, plan and runtime; never variables.
"""
