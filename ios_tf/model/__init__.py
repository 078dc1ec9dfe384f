"""Models that users bring, and the graphs they become and are written from."""
