"""Floor 6, and the module `tf.contrib`: what TensorFlow 1 programs take from there. Loaded when it is first asked for.

Imports go down: base, graph, ops, variables, client, train, layers.
"""

from typing import TYPE_CHECKING

from dtfzmq.base import absent
from dtfzmq.contrib import framework, layers, legacy_seq2seq, losses, metrics, rnn, seq2seq, slim, training

__all__ = ["framework", "layers", "legacy_seq2seq", "losses", "metrics", "rnn", "seq2seq", "slim", "training"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("contrib", name)
