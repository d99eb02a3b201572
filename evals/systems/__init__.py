"""Systems: RAG applications of the user's own, measured as cells of a study."""
