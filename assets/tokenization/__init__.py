"""Tokens of texts, as the tokenizers of models count and place them."""
