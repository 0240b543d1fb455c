"""Config files: shipped files, and checks of users' files before Hydra reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from discrete_diffusion.config.plugins import folders_of
from discrete_diffusion.config.values import unknown_name

CONFIG_GROUP = "discrete_diffusion.configs"
"""Group of entry points by which packages ship YAML files; each names the files' package."""


def config_dir() -> Path:
    """Folder of our configs: in the installed package, or at the top of a checkout."""
    packaged = Path(__file__).parents[1] / "configs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "configs"


def config_dirs() -> list[Path]:
    """Folders of shipped configs: ours, then folders of installed packages."""
    return [config_dir(), *folders_of(CONFIG_GROUP)]


def shipped_files(group: str) -> dict[str, Path]:
    """Shipped YAML files of a group by name; ours replace other packages' files."""
    folders = reversed(config_dirs())
    found = {path.stem: path for each in folders for path in (each / group).glob("*.yaml")}
    return dict(sorted(found.items()))


def plain(config: Any, *, resolve: bool = True) -> dict[str, Any]:
    """Convert a config to a plain dict; ``resolve``: whether to resolve interpolations."""
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(config, resolve=resolve)
    if not isinstance(container, dict):
        raise TypeError(f"expected a config with keys, got {type(container).__name__}")
    return {str(key): value for key, value in container.items()}


def as_list(value: Any) -> list[str]:
    """Convert a value or a list of values to a list of strings; null to an empty list."""
    from omegaconf import ListConfig

    if value is None:
        return []
    several = isinstance(value, ListConfig | list | tuple)
    return [str(each) for each in value] if several else [str(value)]


def check_exists(key: str, path: Any, noun: str = "file or folder") -> None:
    """Raise ``FileNotFoundError`` naming ``key`` if its ``path`` does not exist; null is allowed.

    ``noun``: kind of file in the message."""
    if path is not None and not Path(str(path)).exists():
        raise FileNotFoundError(f"{key}={path}: no {noun} at {Path(str(path)).absolute()}")


@dataclass(frozen=True)
class ModelPreset:
    """Facts in the YAML of a model preset.

    ``backbones``: names of the backbones that it fits, () if not stated; ``parameters``: number of
    parameters, 0 if not stated; ``scales_with``: keys that ``compare`` changes to reach a size, the
    second for finer steps.
    """

    name: str
    backbones: tuple[str, ...] = ()
    parameters: int = 0
    scales_with: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, keys: Mapping[str, Any]) -> ModelPreset:
        """Read the facts from the keys of the YAML."""
        scales_with = keys.get("scales_with") or ()
        return cls(
            name,
            tuple(keys.get("backbones") or ()),
            int(keys.get("parameters") or 0),
            (scales_with,) if isinstance(scales_with, str) else tuple(scales_with),
        )


def shipped_presets() -> dict[str, ModelPreset]:
    """Shipped model presets by name; ``composing/search_path.py`` adds users' presets."""
    from omegaconf import OmegaConf

    files = shipped_files("model").items()
    return {name: ModelPreset.of(name, plain(OmegaConf.load(path))) for name, path in files}


def presets_of(backbone: str) -> list[str]:
    """Names of the shipped model presets that a backbone fits, sorted by size."""
    fitting = [preset for preset in shipped_presets().values() if backbone in preset.backbones]
    return [preset.name for preset in sorted(fitting, key=lambda preset: preset.parameters)]


def shipped_config(group: str, name: str) -> dict[str, Any]:
    """Keys of a shipped config of a group, without ``defaults``; interpolations stay unresolved.

    {} for an unknown name."""
    # the name in a file may be of any type
    path = shipped_files(group).get(str(name))
    if path is None:
        return {}
    found = deepcopy(_read_yaml(path, path.stat().st_mtime_ns))
    found.pop("defaults", None)
    return found


@lru_cache
def _read_yaml(path: Path, changed: int) -> dict[str, Any]:
    """Read a YAML file as plain objects; ``changed``: time of change, part of the cache key."""
    from omegaconf import OmegaConf

    return plain(OmegaConf.load(path), resolve=False)


_MEANINGS = {
    "found character '\\t'": "a tab; indent with spaces",
    "that cannot start any token": "a value that begins with this character; put it in quotes",
    "mapping values are not allowed": "a colon too many, or a line before it that lacks one or is "
    "indented otherwise",
    "<block end>": "an indent that is neither that of the section nor of its keys",
    "undefined alias": "a value that begins with *; put it in quotes",
    "a quoted scalar": "a quotation mark that is not closed",
    "a flow": "a bracket that is not closed, lacks a comma, or holds a ${...} without quotes",
    "expected ':'": "a key without a colon",
    "a single document": "a second document; take out the line ---",
}
"""Plain explanations of errors of the YAML parser, by words in the error."""

_EXAMPLE = "expected keys with values, as in trainer: {max_steps: 100}"
_LIST = "expected a list, as in defaults: [override /schedule: cosine]"
_HEADER = re.compile(r"# *@package +((_global_|_group_|[A-Za-z]\w*)(\.\w+)*) *")
_ENTRY = re.compile(r"((?:override|optional) +)*(/?[\w/-]+)(@[\w.]*)?")
_PLAIN_TAGS = frozenset(yaml.SafeLoader.yaml_constructors) | {"tag:yaml.org,2002:merge"}


@dataclass(frozen=True)
class Entry:
    """Entry of ``defaults``. ``group``: group from the root; ``word``: override, optional or ""."""

    node: yaml.Node
    group: str
    names: list[str]
    word: str = ""
    package: str = ""


@dataclass(frozen=True)
class ConfigFile:
    """YAML file that the words of a command choose.

    ``group``: config group, such as experiment; ``package``: section that its keys go into, "" for
    the top level.
    """

    path: Path
    group: str
    text: str
    root: yaml.MappingNode
    package: str

    def place(self, node: yaml.Node) -> str:
        return f"{self.path}, line {node.start_mark.line + 1}: "

    def entries(self) -> Iterator[Entry]:
        """Entries of ``defaults``. Raises ``ValueError`` for a line that is not an entry."""
        listed = next((value for key, value in self.root.value if key.value == "defaults"), None)
        if listed is not None and not isinstance(listed, yaml.SequenceNode):
            raise ValueError(f"{self.place(listed)}defaults: {_LIST}")
        # a name of the same group, or a group with names
        for node in () if listed is None else listed.value:
            if isinstance(node, yaml.ScalarNode):
                group, _, name = f"{self.group}/{node.value}".rpartition("/")
                yield Entry(node, group, [name])
                continue
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            found = _ENTRY.fullmatch(str(pairs[0][0].value)) if len(pairs) == 1 else None
            if found is None:
                raise ValueError(f"{self.place(node)}not an entry of defaults; {_LIST}")
            word, group, package = (each or "" for each in found.groups())
            value = pairs[0][1]
            names = [str(value.value)]
            if isinstance(value, yaml.SequenceNode):
                names = [str(each.value) for each in value.value]
            whole = group[1:] if group.startswith("/") else f"{self.group}/{group}".lstrip("/")
            yield Entry(node, whole, names, word.strip(), package)


def check_own_files(
    command: str, overrides: Sequence[str], user_dir: Path | None = None
) -> list[ConfigFile]:
    """Read and check the user's config files that a command and their ``defaults`` choose.

    Raises ``ValueError`` with file and line for invalid YAML, unknown keys, and headers and entries
    of ``defaults`` that Hydra would misread.
    """
    # files that the command chooses, then files that their defaults choose
    folders = [*([] if user_dir is None else [user_dir]), *config_dirs()]
    files, waiting, seen = list[ConfigFile](), _chosen_files(overrides), set[tuple[str, str]]()
    while waiting:
        group, name = waiting.pop()
        paths = [folder / group / f"{name}.yaml" for folder in folders]
        path = next((path for path in paths if path.is_file()), None)
        if path is None or (group, name) in seen:
            continue
        seen.add((group, name))
        if (file := _read_own(path, group)) is not None:
            files.append(file)
            waiting += [(entry.group, each) for entry in file.entries() for each in entry.names]
    # other commands refuse most groups by name
    if command not in ("train", "compare"):
        return files
    # keys of the command, and keys that interpolations read
    sections, keys = _known_keys(command)
    words = " ".join([*overrides, *(file.text for file in files)])
    keys = keys | {*re.findall(r"\$\{(\w+)", words)}
    # entries, then sections and keys
    for file in files:
        for entry in file.entries():
            _check_entry(file, entry, sections)
        _check_sections(file, sections, keys)
    return files


def check_interpolations(files: Sequence[ConfigFile], config: Any) -> None:
    """Raise ``ValueError`` with file and line for a ``${...}`` that ``config`` cannot resolve."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for file in files:
        for key, node in _scalars_by_key(file.root, file.package):
            late = "${hydra:" in node.value or key.startswith(("hydra.", "defaults."))
            if "${" in node.value and not late:
                try:
                    OmegaConf.select(config, key)
                except OmegaConfBaseException as error:
                    problem = str(error).split("\n")[0]
                    raise ValueError(f"{file.place(node)}{key}: {problem}") from error


def place_of_choice(files: Sequence[ConfigFile], group: str, name: str) -> str:
    """Return ``FILE, line N: `` of the ``defaults`` entry that chooses ``group/name``, or ""."""
    for file in files:
        for entry in file.entries():
            if entry.group == group and name in entry.names:
                return file.place(entry.node)
    return ""


def explain_yaml_error(error: yaml.MarkedYAMLError) -> str:
    """Explain an error of the YAML parser by its line and a plain sentence."""
    said = f"{error.context or ''} {error.problem or ''}"
    opened = "quoted scalar" in said or "a flow" in said
    mark = (opened and error.context_mark) or error.problem_mark or error.context_mark
    meaning = next((text for words, text in _MEANINGS.items() if words in said), said.strip())
    return f"line {mark.line + 1 if mark else 1}: {meaning}"


def _chosen_files(overrides: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs (group, name) that words such as ``logger=[csv,mine]`` may choose."""
    found = []
    for word in overrides:
        group, _, names = word.lstrip("+").partition("=")
        group = group.partition("@")[0]
        if re.fullmatch(r"[\w/-]+", group):
            found += [(group, name) for name in re.findall(r"[\w/-]+", names)]
    return found


@cache
def _known_keys(command: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the sections of a command's config, and its other keys."""
    # sections of groups, of other YAMLs and of its own
    sections, keys = set[str](), {"defaults", "hydra"}
    root: Any = yaml.safe_load((config_dir() / f"{command}.yaml").read_text(encoding="utf-8"))
    for entry in root.pop("defaults", ()):
        if isinstance(entry, dict):
            sections |= {name for name in entry if re.fullmatch(r"\w+", name)}
        elif (config_dir() / f"{entry}.yaml").is_file():
            more = _known_keys(entry)
            sections, keys = sections | more[0], keys | more[1]
    for key, value in root.items():
        (sections if isinstance(value, dict) and key != "hydra" else keys).add(key)
    return frozenset(sections - keys - {"experiment", "debug"}), frozenset(keys)


def _read_own(path: Path, group: str) -> ConfigFile | None:
    """Read a user's YAML file and check its form; None if it is empty."""
    # characters
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from error
    if text.startswith("\ufeff"):
        raise ValueError(
            f"{path}, line 1: a byte order mark, which hides '# @package'; save the file without it"
        )
    # header, then YAML
    package = _package_of_keys(path, text, group)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"{path}, {explain_yaml_error(error)}") from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ValueError(f"{path}, line {line}: a control character; take it out") from error
    if root is None:
        return None
    file = ConfigFile(path, group, text, root, package)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{file.place(root)}{_EXAMPLE}")
    _check_nodes(file, root)
    return file


def _package_of_keys(path: Path, text: str, group: str) -> str:
    """Section that the keys of a file go into, decided by its header or its group."""
    package, in_header = None, True
    for number, line in enumerate(text.splitlines(), start=1):
        # a header is a comment # @... above everything else
        begun = re.match(r"\s*#\s*@", line) is not None
        in_header = in_header and (begun or not line.strip())
        if not begun or not (in_header or "package" in line):
            continue
        found = _HEADER.fullmatch(line.strip())
        if found is None or not in_header:
            where = "" if in_header else " before all other lines, comments too"
            raise ValueError(
                f"{path}, line {number}: '{line.strip()}'; expected '# @package _global_', or the "
                f"name of a section,{where or ' and nothing else in that line'}"
            )
        package = found[1]
    own = group.replace("/", ".")
    package = own if package is None else package.replace("_group_", own)
    return package.removeprefix("_global_").removeprefix(".")


def _check_nodes(file: ConfigFile, node: yaml.Node, within: frozenset[int] = frozenset()) -> None:
    """Check keys, tags and the grammar of interpolations at all levels of a file."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # aliases, then tags
    if id(node) in within:
        raise ValueError(f"{file.place(node)}a value that contains itself")
    within = within | {id(node)}
    if node.tag not in _PLAIN_TAGS:
        raise ValueError(f"{file.place(node)}the tag {node.tag}; values have no tags")
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _check_nodes(file, each, within)
    elif isinstance(node, yaml.MappingNode):
        # lines of the keys, to refuse one that comes twice
        lines = dict[str, int]()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"{file.place(key)}a key that is not a word; {_EXAMPLE}")
            merges = key.tag.endswith(":merge")
            if merges and isinstance(value, yaml.ScalarNode):
                raise ValueError(f"{file.place(value)}<< takes an alias, such as *other")
            if key.value in lines and not merges:
                raise ValueError(
                    f"{file.place(key)}the key {key.value} again, after line {lines[key.value]}; "
                    "take one out"
                )
            lines[key.value] = key.start_mark.line + 1
            _check_nodes(file, value, within)
    elif "${" in node.value:
        try:
            OmegaConf.create([node.value])
        except OmegaConfBaseException as error:
            problem = str(error).split("\n")[0]
            raise ValueError(f"{file.place(node)}'{node.value}': {problem}") from error


def _check_entry(file: ConfigFile, entry: Entry, sections: frozenset[str]) -> None:
    """Check that an entry has ``override`` where Hydra needs it, with the group from the root."""
    # overrides need the group from the root
    group, inside = entry.group, entry.group.removeprefix(f"{file.group}/")
    if isinstance(entry.node, yaml.ScalarNode) or group.startswith("hydra/") or entry.package:
        return
    known = {*sections, "experiment", "debug"}
    right = f"{inside}: {', '.join(entry.names)}"
    if entry.word == "override" and group not in known:
        if inside in known:
            raise ValueError(f"{file.place(entry.node)}write override /{right}")
        raise ValueError(f"{file.place(entry.node)}{unknown_name('config group', inside, known)}")
    if not entry.word and group in known and file.group != group:
        raise ValueError(
            f"{file.place(entry.node)}{group} is chosen already; write override /{right}"
        )


def _check_sections(file: ConfigFile, sections: frozenset[str], keys: frozenset[str]) -> None:
    """Check that the sections of a file are known to the command and have keys."""
    known = sections | keys
    # a file whose keys all go into one section
    if file.package:
        top = file.package.partition(".")[0]
        if top not in known and file.root.value:
            raise ValueError(
                f"{file.path}, line 1: its keys go into a section {top}, which nothing reads; "
                "begin the file with '# @package _global_'"
            )
        return
    # a file of the whole config
    for key, value in file.root.value:
        # an anchor holds values for other keys
        anchor = "&" in file.text.splitlines()[key.start_mark.line]
        if key.value not in known and key.value != "<<" and not anchor:
            raise ValueError(f"{file.place(key)}{unknown_name('section or key', key.value, known)}")
        filled = isinstance(value, yaml.MappingNode) or "${" in str(value.value)
        if key.value in sections and not filled:
            raise ValueError(f"{file.place(value)}{key.value} is a section; {_EXAMPLE}")


def _scalars_by_key(node: yaml.Node, key: str) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yield the scalars at all levels of a mapping with their dotted keys."""
    if isinstance(node, yaml.ScalarNode):
        yield key, node
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        yield from _scalars_by_key(value, f"{key}.{name.value}".lstrip("."))
