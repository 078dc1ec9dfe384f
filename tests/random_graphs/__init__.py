"""Random TensorFlow graphs: converted graphs must compute the same as the originals."""
