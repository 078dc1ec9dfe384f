"""The steps that random graphs are made of."""
