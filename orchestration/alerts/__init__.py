"""Tells people what they want to hear of: failed runs and checks, another best cell, a spent budget."""
