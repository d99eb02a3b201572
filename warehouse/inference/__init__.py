"""Access to models: weights, local servers, the gateway, budgets, the embedding API."""
