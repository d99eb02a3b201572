"""What judge cards are made of: answers made worse on purpose, and cases that people have labelled."""
