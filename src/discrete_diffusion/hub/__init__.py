"""Networks and models of others: the Hugging Face Hub and ``transformers``."""
