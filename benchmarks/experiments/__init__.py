"""The paper's experiments, one module each: measure, print, draw."""
