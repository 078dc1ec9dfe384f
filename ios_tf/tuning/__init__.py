"""Schedules of blocks: searched, kept in the cache, looked up while graphs load."""
