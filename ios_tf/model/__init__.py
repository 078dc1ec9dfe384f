"""Loads users' models, turns them into graphs, and writes graphs as models."""
