"""Questions that a language model makes from sampled chunks, and the rules that drop the bad ones."""
