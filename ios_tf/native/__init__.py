"""The native libraries: one loader, the engine without TensorFlow, the plugin in it."""
