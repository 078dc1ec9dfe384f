"""Searches for schedules of blocks, stores them in a cache, and looks them up."""
