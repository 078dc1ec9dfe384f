"""Cost models: the sources of the scheduler's stage latencies."""
