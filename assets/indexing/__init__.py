"""LanceDB tables and the lexical index beside them."""
