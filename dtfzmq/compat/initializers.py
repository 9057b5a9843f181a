"""``tf.initializers``: public names alone."""

from dtfzmq.variables.initializers import (
    constant_initializer as constant,
)
from dtfzmq.variables.initializers import (
    glorot_normal_initializer as glorot_normal,
)
from dtfzmq.variables.initializers import (
    glorot_uniform_initializer as glorot_uniform,
)
from dtfzmq.variables.initializers import (
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)
from dtfzmq.variables.initializers import (
    identity_initializer as identity,
)
from dtfzmq.variables.initializers import (
    ones_initializer as ones,
)
from dtfzmq.variables.initializers import (
    orthogonal_initializer as orthogonal,
)
from dtfzmq.variables.initializers import (
    random_normal_initializer as random_normal,
)
from dtfzmq.variables.initializers import (
    random_uniform_initializer as random_uniform,
)
from dtfzmq.variables.initializers import (
    truncated_normal_initializer as truncated_normal,
)
from dtfzmq.variables.initializers import (
    uniform_unit_scaling_initializer as uniform_unit_scaling,
)
from dtfzmq.variables.initializers import (
    variance_scaling_initializer as variance_scaling,
)
from dtfzmq.variables.initializers import (
    zeros_initializer as zeros,
)
from dtfzmq.variables.listing import global_variables_initializer as global_variables
from dtfzmq.variables.listing import local_variables_initializer as local_variables
from dtfzmq.variables.listing import tables_initializer
from dtfzmq.variables.listing import variables_initializer as variables
