"""Judgements by RAGAS: ragas' own prompts and steps, asked through the gateway."""
