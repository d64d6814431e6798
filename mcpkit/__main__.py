"""`python -m mcpkit`."""

import sys

from mcpkit.cli.main import main

sys.exit(main())
