"""What is built from pages and stored: documents, chunks, embeddings, indexes."""
