"""What random graphs are made of, step by step."""
