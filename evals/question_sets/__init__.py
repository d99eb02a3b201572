"""Gold: question files, evidence resolved in the documents, and the step that lost a question."""
