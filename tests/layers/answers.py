"""What a model answers: values, gradients, updated variables, names. The same code runs over TensorFlow's module."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.layers import models


def _plain(value: Any) -> Any:
    return np.asarray(value).astype(np.float64).round(7).tolist()


def answer(tf: Any, make: models.Model) -> dict[str, Any]:
    """Run one of MODELS: outputs, the gradient of their weighted sum, variables after UPDATE_OPS, all by name."""
    with tf.Graph().as_default():
        outputs = list(make(tf))
        variables = tf.global_variables()
        with tf.Session() as session:
            for v in variables:
                v.load(models.value_of(v.op.name, tuple(v.shape.as_list())), session)
            values = session.run(outputs)
            weights = [models.weight_of(i, np.shape(v)) for i, v in enumerate(values)]
            weighted = [tf.reduce_sum(o * w) for o, w in zip(outputs, weights)]
            trained = tf.trainable_variables()
            grads = tf.gradients(tf.add_n(weighted), trained) if trained else []
            found = session.run([g for g in grads if g is not None])
            session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
            after = session.run([v for v in variables if v not in trained])
        return {
            "outputs": [_plain(v) for v in values],
            "static_shapes": [o.shape.as_list() for o in outputs],
            "variables": [[v.op.name, v.shape.as_list()] for v in variables],
            "trained": [v.op.name for v in trained],
            "gradients": [_plain(g) for g in found],
            "after": [_plain(v) for v in after],
            "losses": len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)),
            "updates": len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)),
        }


def metric_answer(tf: Any, make: models.Model) -> dict[str, Any]:
    """Run one of METRICS: its updates twice, then its values; names of its variables."""
    with tf.Graph().as_default():
        pairs = make(tf)
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            updates = [session.run([update for _, update in pairs]) for _ in range(2)]
            values = session.run([value for value, _ in pairs])
        return {
            "updates": [[_plain(v) for v in row] for row in updates],
            "values": [_plain(v) for v in values],
            "variables": [[v.op.name, v.shape.as_list()] for v in tf.local_variables()],
        }
