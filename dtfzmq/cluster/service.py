"""What a task answers at its mailbox: each message goes to the method of the core that is named after it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from dtfzmq.base import errors

_log = logging.getLogger("dtfzmq")

Handler = Callable[[Any, Any, Any], None]


def method_name(message: type[Any]) -> str:
    """``on_run_graph`` of RunGraph."""
    return "on" + re.sub(r"([A-Z])", r"_\1", message.__name__).lower()


class Service:
    """Requests of a task's links, and of its own process, by message type. All methods: on the baton."""

    def __init__(self, messages: Iterable[type[Any]], *cores: Any) -> None:
        """TypeError if a message has no handler in `cores`, or a handler no message."""
        self.handlers: dict[type[Any], Handler] = {}
        names = set()
        for message in messages:
            name = method_name(message)
            names.add(name)
            for core in cores:
                method = getattr(core, name, None)
                if method is not None:
                    self.handlers[message] = method
                    break
            else:
                raise TypeError(f"Nobody answers {message.__name__}: no core has a method {name}.")
        for core in cores:
            for name in vars(type(core)):
                if (
                    name.startswith("on_")
                    and name not in names
                    and not name.startswith(("on_link_", "on_push", "on_announce"))
                ):
                    raise TypeError(f"{type(core).__name__}.{name} answers no message.")

    def handle(self, link: Any, message: Any, reply: Any) -> None:
        """Answer one request; an exception becomes the answer."""
        handler = self.handlers.get(type(message))
        if handler is None:
            reply.fail(errors.UnimplementedError(None, None, f"A {type(message).__name__} is not answered here."))
            return
        try:
            handler(link, message, reply)
        except errors.OpError as error:
            reply.fail(error)
        except Exception as error:
            _log.exception("a %s met an error", type(message).__name__)
            reply.fail(errors.wrap(error))
