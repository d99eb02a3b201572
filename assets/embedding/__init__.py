"""Embeds texts: models, servers, tokenizers and the cached embedder."""
