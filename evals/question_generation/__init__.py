"""Questions made from the documents of a corpus: candidates, filters, and the reason of each drop."""
