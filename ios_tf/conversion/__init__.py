"""Converts models into faster equivalents, and compares, times and shows both."""
