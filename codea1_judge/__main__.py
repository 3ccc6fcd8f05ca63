import sys

from codea1_judge.cli import main

sys.exit(main())
