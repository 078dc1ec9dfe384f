"""A model in, a faster equal one out; and what can be said of either."""
