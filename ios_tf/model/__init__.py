"""What a user may bring, and the graphs that it becomes and is written from."""
