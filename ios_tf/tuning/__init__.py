"""Searches schedules of blocks, caches them, and finds them while graphs load."""
