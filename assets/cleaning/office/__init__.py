"""Office files: Word documents, workbooks and presentations, as `python-docx` and its like open them."""
