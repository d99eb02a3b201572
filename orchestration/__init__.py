"""The composition root: wires, configures and starts everything."""
