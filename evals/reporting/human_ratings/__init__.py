"""Human ratings of a study's answers, as the report shows them."""
