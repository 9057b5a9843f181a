"""`SecondOrStepTimer`: whether it is time again, by the clock or by steps."""

from __future__ import annotations

from collections.abc import Callable

from dtfzmq.base import clock


class SecondOrStepTimer:
    """Triggers once every `every_secs` seconds, or once every `every_steps` steps; ValueError unless one is given."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """As if it never triggered."""
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time, at `step`. Never twice for one step."""
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._every_secs is not None:
            return clock.now() >= self._last_time + self._every_secs
        return step >= self._last_step + (self._every_steps or 0)

    def due(self, fetched: int, exact: Callable[[], int]) -> int | None:
        """The step, if it is time. `fetched` may be from before the step's update: near it, `exact()` is asked."""
        if not self.should_trigger_for_step(fetched + 1):
            return None
        step = exact()
        return step if self.should_trigger_for_step(step) else None

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """It triggered at `step`. (seconds, steps) since the time before; None each the first time."""
        now = clock.now()
        seconds, steps = None, None
        if self._last_step is not None:
            seconds, steps = now - self._last_time, step - self._last_step
        self._last_time, self._last_step = now, step
        return seconds, steps

    def last_triggered_step(self) -> int | None:
        """The step at which it triggered last."""
        return self._last_step
