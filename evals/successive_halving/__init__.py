"""Which cells of a grid are asked, and which are dropped on the way: strategies without storage."""
