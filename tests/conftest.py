"""What all tests share."""

import os

# Before TensorFlow is imported: what it logs is no output of ours.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
