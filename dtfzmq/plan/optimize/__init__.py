"""Passes that make a placed graph cheaper to run and leave what it computes as it was.

They come after placement and before partition. A pass is a function from a node list to a node list;
what it may rely on and must leave alone stands in `passes`, the table of all of them in `run`.
"""
