"""Loads models of users, converts them to graphs, and writes graphs as models."""
