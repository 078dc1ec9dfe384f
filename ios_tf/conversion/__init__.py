"""Converts models into faster equal ones, and compares, times and shows both."""
