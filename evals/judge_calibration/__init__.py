"""How far a judge can be trusted: what is tried with it, and what its card says."""
