"""Spreadsheets of other people: read, mapped, checked row by row, and kept as studies of their own."""
