import sys

from codea1_jax.cli import main

sys.exit(main())
