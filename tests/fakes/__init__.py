"""Fakes of what lies outside: servers and models with scripted answers."""
