"""How an answer is made from a question and its passages: by quoting, or by a model behind the gateway."""
