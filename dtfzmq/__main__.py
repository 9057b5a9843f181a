"""``python -m dtfzmq``: the same as the ``dtfzmq`` command."""

import sys

from dtfzmq.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
