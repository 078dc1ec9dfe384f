"""The command line: `ios_tf`, or `python -m ios_tf`."""
