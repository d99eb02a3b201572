"""What a question should find: question files, evidence in the documents, where it was lost."""
