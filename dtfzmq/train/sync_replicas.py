"""Synchronous replicas: one update of the variables for the mean of the gradients of several workers.

Each worker hands its gradients, stamped with its local step, to accumulators beside the variables, then waits for a
token. The chief's queue runner takes the means, updates the variables and the global step, and gives out tokens that
carry the new step. A gradient stamped with an older step is dropped. Gradients count, not workers: one worker alone
makes progress, and with more replicas than `replicas_to_aggregate` the slow ones are backups. A worker that is lost so
that a step cannot be completed is named to the others, whose runs end as UnavailableError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import colocate_with, control_dependencies, device, name_scope
from dtfzmq.ops import constants, grouping
from dtfzmq.ops.accumulators import ConditionalAccumulator, ConditionalAccumulatorBase, SparseConditionalAccumulator
from dtfzmq.ops.data_flow import FIFOQueue, TokenQueue
from dtfzmq.train.optimizer import GradAndVar, Optimizer
from dtfzmq.train.queue_runner import QueueRunner
from dtfzmq.train.session_run_hook import SessionRunHook
from dtfzmq.variables.listing import global_variables, report_uninitialized_variables
from dtfzmq.variables.scope import make_variable
from dtfzmq.variables.variable import Variable


class SyncReplicasOptimizer(Optimizer):
    """Wraps `opt`: `replicas_to_aggregate` gradients make one step of it.

    `total_num_replicas` above `replicas_to_aggregate` makes the rest backups; below it, workers hand in several
    gradients a step. `replica_id` is accepted and ignored. Call `apply_gradients` (or `minimize`) with a global step;
    then either use `make_session_run_hook`, or run `chief_init_op` / `local_step_init_op`, the op of
    `get_init_tokens_op` and the threads of `get_chief_queue_runner` yourself.
    """

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Iterable[Any] | None = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
        replica_id: Any = None,
    ) -> None:
        super().__init__(use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = total
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = None if variables_to_average is None else list(variables_to_average)
        self._gradients_applied = False
        self._global_step: Any = None
        self._local_step: Variable | None = None
        self._sync_token_queue: TokenQueue | None = None
        self._chief_queue_runner: QueueRunner | None = None
        self._accumulators: list[tuple[ConditionalAccumulatorBase, str]] = []
        self.local_step_init_op: Operation | None = None
        self.chief_init_op: Operation | None = None
        self.ready_for_local_init_op: Tensor | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[GradAndVar]:
        """The wrapped optimizer's gradients."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[GradAndVar], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """The worker's op: hand in the gradients, then wait for the token of the next step.

        Raises ValueError without variables or without a global step.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        # an op of no device function's choice stands with the worker, and so does what is colocated with it
        anchor = constants.no_op()
        with colocate_with(anchor):
            local_step = make_variable(
                0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self._local_step = local_step
        self.local_step_init_op = local_step.assign(global_step).op
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        with name_scope(None, self._name):
            handed_in: list[Operation] = []
            means: list[GradAndVar] = []
            for grad, var in pairs:
                means.append((None if grad is None else self._exchange(grad, var, local_step, handed_in), var))
            with device(global_step.device), name_scope(""):
                update = self._opt.apply_gradients(means, global_step)
            train_op = self._token_ops(handed_in, update, local_step, name)
            ready = [self.local_step_init_op]
            for accumulator, where in self._accumulators:
                with device(where):
                    ready.append(accumulator.set_global_step(global_step, name="SetGlobalStep"))
            self.chief_init_op = grouping.group(*ready)
        self._gradients_applied = True
        return train_op

    def _exchange(self, grad: Any, var: Any, local_step: Variable, handed_in: list[Operation]) -> Any:
        """Hand `grad` in beside `var`; what comes out of there once enough replicas did."""
        shared = var.name + "/grad_accum"
        accumulator: ConditionalAccumulatorBase
        with device(var.device):
            mean: Any
            if isinstance(grad, Tensor):
                dense = ConditionalAccumulator(grad.dtype, shape=var.get_shape(), shared_name=shared)
                handed_in.append(dense.apply_grad(grad, local_step=local_step))
                mean, accumulator = dense.take_grad(self._replicas_to_aggregate), dense
            elif isinstance(grad, IndexedSlices):
                sparse = SparseConditionalAccumulator(grad.dtype, shape=var.get_shape(), shared_name=shared)
                handed_in.append(sparse.apply_indexed_slices_grad(grad, local_step=local_step))
                mean, accumulator = sparse.take_indexed_slices_grad(self._replicas_to_aggregate), sparse
            else:
                raise ValueError(f"Unknown grad type! A gradient is a Tensor or IndexedSlices, not {grad!r}.")
        self._accumulators.append((accumulator, var.device))
        return mean

    def _token_ops(
        self, handed_in: list[Operation], update: Operation, local_step: Variable, name: str | None
    ) -> Operation:
        step = self._global_step
        dtype = step.dtype.base_dtype
        with device(step.device), name_scope(""):
            needed = min(self._replicas_to_aggregate, self._total_num_replicas)
            tokens = TokenQueue(dtype, needed, name="sync_token_q", shared_name="sync_token_q")
            # the runner closes the queue that it is given; the tokens' must stay open for sessions to come
            unused = FIFOQueue(1, dtypes.int32, shapes=[()], name="dummy_queue", shared_name="dummy_queue")
            with control_dependencies(handed_in):
                token = tokens.dequeue()
            train_op: Operation = local_step.assign(token, name=name).op
            with control_dependencies([update]):
                given = constants.fill([self._tokens_per_step], step.read_value())
                sync_op = tokens.enqueue_many((given,))
            if self._variable_averages is not None:
                with control_dependencies([sync_op]):
                    sync_op = self._variable_averages.apply(self._variables_to_average)
            self._chief_queue_runner = QueueRunner(unused, [sync_op])
        self._sync_token_queue = tokens
        return train_op

    def get_chief_queue_runner(self) -> QueueRunner:
        """The runner that the chief starts: it applies the means and gives out tokens."""
        if self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """The op with which the chief gives out the first tokens: `replicas_to_aggregate` by default."""
        if self._sync_token_queue is None:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)")
        if num_tokens <= 0:
            return constants.no_op(name="no_init_tokens")
        with device(self._global_step.device), name_scope(""):
            tokens = constants.fill([num_tokens], self._global_step.read_value())
            return self._sync_token_queue.enqueue_many((tokens,))

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """The hook that initialises this replica and, on the chief, gives out tokens and starts the runner."""
        return _SyncReplicasOptimizerHook(self, is_chief, num_tokens)

    def get_slot(self, *args: Any, **kwargs: Any) -> Variable | None:
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self) -> list[str]:
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        return self._opt.variables()


class _SyncReplicasOptimizerHook(SessionRunHook):
    """See `SyncReplicasOptimizer.make_session_run_hook`."""

    def __init__(self, sync_optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer = sync_optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens
        self._init_tokens: Operation | None = None

    def begin(self) -> None:
        if not self._optimizer._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        if self._is_chief:
            self._init_tokens = self._optimizer.get_init_tokens_op(self._num_tokens)

    def after_create_session(self, session: Any, coord: Any) -> None:
        missing = session.run(self._optimizer.ready_for_local_init_op)
        if len(missing):
            names = ", ".join(name.decode() for name in missing)
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init: variables not "
                f"initialized: {names}. Run the initializers before the hook's session is used."
            )
        session.run(self._optimizer.chief_init_op if self._is_chief else self._optimizer.local_step_init_op)
        if self._init_tokens is not None:
            session.run(self._init_tokens)
            self._optimizer.get_chief_queue_runner().create_threads(session, coord=coord, daemon=True, start=True)


SyncReplicasOptimizerV2 = SyncReplicasOptimizer
