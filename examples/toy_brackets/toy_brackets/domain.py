from discrete_diffusion.data import TokenDataset
from discrete_diffusion.domains import (
    LIKELIHOOD,
    ORDERS,
    TIME_BINS,
    Domain,
    Option,
    SubCommand,
    completions,
    register_domain,
)
from discrete_diffusion.evaluation import Column, TokenReport
from discrete_diffusion.layout import Sequences
from toy_brackets import strings


class BracketReport(TokenReport):
    columns = (Column("closed", "closed", 1, up=True, share=True, of_samples=True),)

    def measure(self, samples):
        texts = strings.decode(samples)
        return {"closed": sum(map(strings.is_closed, texts)) / len(texts)} if texts else {}

    def save(self, samples, folder):
        (folder / "samples.txt").write_text("\n".join([*strings.decode(samples), ""]))


def print_strings(options):
    """Print strings of the generator."""
    print(*strings.generate(options.num, length=12, seed=0), sep="\n")


@register_domain
class Brackets(Domain):
    """Strings of brackets, all of them closed."""

    name, title, data_sets = "toy_brackets", "strings of brackets", {"toy_brackets": "tokens"}
    report, sample_files = BracketReport, ("samples.txt",)
    size = Option("num_letters", "of each string; null: as trained on", least=1, is_size=True)
    given = Option("given", "a file of strings to complete, _ for a letter", is_file=True)
    options = {
        "sample": (size, given, completions("of each; null is 4")),
        "evaluate": (TIME_BINS, LIKELIHOOD, ORDERS),
    }
    usage, add = "[--num N]   strings", lambda p: p.add_argument("--num", type=int, default=3)
    commands = {"data": {"toy_brackets": SubCommand(usage, add, print_strings)}}

    def vocabulary(self, data):
        return Sequences(data["length"], strings.PAD + 1, strings.MASK, strings.PAD)

    def build(self, data):
        made = strings.generate(data.num_strings, data.length, data.string_seed)
        x0 = strings.encode([*dict.fromkeys(made)], data.length)  # each string in one split alone
        return TokenDataset.from_rows(x0, self.vocabulary(data).layout(), data.split)

    def tokens(self, data, samples):
        return strings.encode(samples, data["length"])

    def decode(self, data, tokens):
        return strings.decode(tokens)
