"""How language models learn from their prompts, and the instrument for it on models whose answer is known."""
