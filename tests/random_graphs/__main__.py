"""Runs the campaign: python tests/random_graphs --graphs=3000."""

import sys
from pathlib import Path

if __name__ == "__main__":  # false in the worker processes
    sys.path[0] = str(Path(__file__).resolve().parents[1])

    from random_graphs.campaign import main

    sys.exit(main())
