"""Commands run from a folder that is not the checkout, with a cache of their own."""

from command_fixtures import closed_output_is_not_logged_to, elsewhere, failure, refusal
from comparison_fixtures import copy, finished

__all__ = ["closed_output_is_not_logged_to", "copy", "elsewhere", "failure", "finished", "refusal"]
