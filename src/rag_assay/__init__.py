"""Measures which chunking, embedding, retriever and model answers best on your own documents."""
