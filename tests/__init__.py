"""The tests; a package, so that no library that brings a `tests` of its own stands in its place."""
