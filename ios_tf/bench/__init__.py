"""Benchmarks: models on stock TensorFlow and on the IOS engine."""
