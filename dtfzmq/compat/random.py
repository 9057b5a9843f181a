"""``tf.random``: public names alone."""

from dtfzmq.ops.candidates import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from dtfzmq.ops.distributions import categorical
from dtfzmq.ops.distributions import random_gamma as gamma
from dtfzmq.ops.distributions import random_poisson as poisson
from dtfzmq.ops.random import (
    get_seed,
    multinomial,
    random_normal,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from dtfzmq.ops.random import random_normal as normal
from dtfzmq.ops.random import random_shuffle as shuffle
from dtfzmq.ops.random import random_uniform as uniform
from dtfzmq.ops.stateless import (
    stateless_binomial,
    stateless_categorical,
    stateless_gamma,
    stateless_multinomial,
    stateless_normal,
    stateless_poisson,
    stateless_truncated_normal,
    stateless_uniform,
)
