"""Commands run from a folder that is not the checkout, with a cache of their own."""

from command_fixtures import closed_output_is_not_logged_to, elsewhere, failure, refusal

__all__ = ["closed_output_is_not_logged_to", "elsewhere", "failure", "refusal"]
