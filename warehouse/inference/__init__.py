"""Every way to a model: weights, local servers, the gateway, budgets, the embedding API."""
