"""Random TensorFlow graphs: what is converted computes what it was converted from."""
