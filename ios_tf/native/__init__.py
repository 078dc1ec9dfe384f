"""The native libraries: their loader, the engine, and TensorFlow's plugin."""
