"""The steps by which random graphs are made."""
