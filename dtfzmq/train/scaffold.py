"""`Scaffold`: the ops by which a session of a graph is made ready, those that the program gave and those by default."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from dtfzmq.graph.graph import get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collection, get_collection
from dtfzmq.ops.grouping import group
from dtfzmq.ops.summarize import merge_all
from dtfzmq.train.checkpoints.saver import Saver
from dtfzmq.variables.listing import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)

_log = logging.getLogger("dtfzmq")


def saver_or_default() -> Saver:
    """The saver of the default graph: the one of the collection SAVERS, or a new one of all variables.

    RuntimeError if the collection has several.
    """
    found = get_collection(GraphKeys.SAVERS)
    if len(found) > 1:
        raise RuntimeError(
            "More than one item in collection savers. Please indicate which one to use by passing it to the "
            "constructor."
        )
    if found:
        saver: Saver = found[0]
        return saver
    made = Saver(sharded=True, allow_empty=True)
    add_to_collection(GraphKeys.SAVERS, made)
    return made


class Scaffold:
    """What makes a session of a graph ready. `finalize` fills in what was not given, and finalizes the graph.

    `init_fn(scaffold, session)` is called after `init_op`. `local_init_op` may be a list. `copy_from_scaffold` gives
    what is not given here.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[..., Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Saver | None = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise TypeError("copy_from_scaffold is not a Scaffold instance.")
        copy = copy_from_scaffold

        def given(name: str, value: Any) -> Any:
            return getattr(copy, name) if value is None and copy is not None else value

        self._init_op = given("_init_op", init_op)
        self._init_feed_dict = given("_init_feed_dict", init_feed_dict)
        self._init_fn: Callable[[Any], Any] | None = given("_init_fn", None)
        if init_fn is not None:
            self._init_fn = lambda sess: init_fn(self, sess)
        self._ready_op = given("_ready_op", ready_op)
        self._ready_for_local_init_op = given("_ready_for_local_init_op", ready_for_local_init_op)
        self._local_init_op = given("_local_init_op", local_init_op)
        self._local_init_feed_dict = given("_local_init_feed_dict", local_init_feed_dict)
        self._summary_op = given("_summary_op", summary_op)
        self._saver: Saver | None = given("_saver", saver)

    def finalize(self) -> Scaffold:
        """Fill in what was not given, from the graph's collections or by TensorFlow's rules, and finalize the graph."""
        default = self.get_or_default
        if self._init_op is None:
            self._init_op = default("init_op", GraphKeys.INIT_OP, global_variables_initializer)
        if self._ready_op is None:
            self._ready_op = default("ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = default(
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                lambda: report_uninitialized_variables(global_variables()),
            )
        if self._local_init_op is None:
            self._local_init_op = default("local_init_op", GraphKeys.LOCAL_INIT_OP, self.default_local_init_op)
        if self._summary_op is None:
            self._summary_op = default("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        if self._saver is None:
            self._saver = saver_or_default()
        self._saver.build()
        get_default_graph().finalize()
        _log.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Callable[[Any], Any] | None:
        """Called with the session after `init_op`."""
        return self._init_fn

    @property
    def init_op(self) -> Any:
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        return self._summary_op

    @property
    def saver(self) -> Saver | None:
        return self._saver

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The one item of a collection, or what `default_constructor` makes, put there. RuntimeError for several.

        Its None is nothing to put anywhere.
        """
        found = get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f"More than one item in the collection \"{collection_key}\". Please indicate which one to use by "
                f"passing it to the tf.Scaffold constructor as:  tf.Scaffold({arg_name}=item to use)"
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Initialises local variables and tables."""
        return group(local_variables_initializer(), tables_initializer())
