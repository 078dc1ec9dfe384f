"""Faults injected into a converter and a server."""
