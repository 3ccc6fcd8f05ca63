"""`python -m codea1_jax.cli`: the command line where its script is not on the path."""

import sys

from codea1_jax.cli import main

sys.exit(main())
