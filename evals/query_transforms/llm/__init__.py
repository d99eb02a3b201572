"""The language model's version of each query transform: its prompt, the shape of its reply, and its call."""
