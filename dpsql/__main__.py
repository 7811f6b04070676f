"""`python -m dpsql`."""

import sys

from dpsql.cli import main

sys.exit(main())
