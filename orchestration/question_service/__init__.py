"""The service that answers single questions by opened cells, for chat, corpora, server and `assay ask`."""
