"""The changes as a diff of Terraform files, for `git apply` or `patch -p1`; no file is written.

    terraform show -json > state.json        # in the root module's folder

The state says which resource a volume is, python-hcl2 reads the .tf files and tells where a value
stands. If the value is a literal the diff has the new one; if it is a variable, shared by instances
that do not all change alike, or in a module that is not in a folder here, a note names what to
change by hand. Each file is parsed again as it will be, and must have the new values and
otherwise those of before. Needs the extra `headrace[terraform]`.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from headrace.base.files import make_path, read_bytes, shorten_name
from headrace.errors import CouldNotRun, InputError, Refusals
from headrace.operate.fleet.applying.changes import VolumeChange, VolumeSetting

refuse = Refusals("docs/guide/fleet-changes.md")
# Terraform's format of `show -json`: developer.hashicorp.com/terraform/internals/json-format.
refuse_state = Refusals("Terraform, JSON output format")
MAX_STATE_BYTES = 512 * 1024 * 1024  # of thousands of volumes; ours
MAX_FILE_BYTES = 4 * 1024 * 1024  # of a .tf file; ours
# Arguments of aws_ebs_volume, in the order in which people write them.
ARGUMENTS = ("type", "size", "iops", "throughput")
REFERENCE = re.compile(r"\b(?:var|local|each|count|data|module|aws_[a-z_]+)(?:\.[A-Za-z_][\w-]*|\[[^\]]*\])*")
INDEX = re.compile(r"\[[^\]]*\]")
# A node of python-hcl2's tree: a branch or a token of lark, whose members the grammar decides.
_Node = Any
# The members of a JSON object of `terraform show`, by name.
_Values = dict[str, Any]


@dataclass(frozen=True)
class TerraformNote:
    """A step to do by hand: the address, and the step in words."""

    address: str
    what: str


@dataclass(frozen=True)
class TerraformPatch:
    """`diff`: a unified diff with paths from the root module's folder, or, where files outside it
    change, from the nearest folder above all of them, which the diff's first line and a note name
    ("" where nothing can be changed so); `notes`: what it leaves to do; `written`: the volumes
    whose change it holds."""

    diff: str
    notes: tuple[TerraformNote, ...]
    written: tuple[str, ...]


@dataclass(frozen=True)
class _StateVolume:
    """A volume in the state: where it is configured and what the state says of it."""

    address: str
    module: tuple[str, ...]
    name: str
    values: _Values


@dataclass
class _Attribute:
    """An argument in a file: its value's place, and its line's with the line end before it.
    `alone`: nothing but a comment stands behind it on its line."""

    value: tuple[int, int]
    whole: tuple[int, int]
    alone: bool
    end_of_line: str
    literal: str | None
    text: str


@dataclass
class _Resource:
    """An aws_ebs_volume in a file."""

    file: Path
    attributes: dict[str, _Attribute]
    ignored: set[str]
    indent: str


@dataclass
class _Folder:
    """The .tf files of a module, read."""

    path: Path
    resources: dict[str, _Resource] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)


def build_terraform_patch(
    state: str | PathLike[str], root: str | PathLike[str], changes: Sequence[VolumeChange]
) -> TerraformPatch:
    """Returns the changes of the volumes that the state in the file `state` (`terraform show
    -json`) knows, as a diff of the .tf files in `root` and its local modules. Raises InputError,
    also where the state is of another workspace, and CouldNotRun."""
    return _PatchBuilder(make_path(root)).make(read_state(state), changes)


def read_state(file: str | PathLike[str]) -> dict[str, _StateVolume]:
    """Returns the volumes of a state (`terraform show -json`) by id. Raises InputError for a file
    that is something else or has no volumes."""
    path = make_path(file)
    name = shorten_name(path.name)
    try:
        document = json.loads(read_bytes(path, MAX_STATE_BYTES))
    except (ValueError, RecursionError) as error:
        hint = "Run terraform show -json > state.json; terraform show alone writes text."
        raise refuse_state.input(name, f"is not JSON: {str(error)[:80]}", hint) from None
    if not isinstance(document, dict) or "format_version" not in document:
        raw = isinstance(document, dict) and "lineage" in document
        hint = "This is the state file itself: run terraform show -json > state.json."
        rule = "is not the output of terraform show -json"
        raise refuse_state.input(name, rule, hint if raw else "Run terraform show -json > state.json.")
    if "planned_values" in document:
        hint = "Run terraform show -json without a plan file."
        raise refuse_state.input(name, "is a plan, and what is there now is needed", hint)
    module = (document.get("values") or {}).get("root_module") or {}
    volumes_by_id = {volume.values["id"]: volume for volume in _list_volumes(module, ())}
    if not volumes_by_id:
        hint = "Is it another workspace? See terraform workspace list."
        raise refuse_state.input(name, "has no aws_ebs_volume", hint)
    return volumes_by_id


def _list_volumes(module: _Values, path: tuple[str, ...]) -> Iterator[_StateVolume]:
    """Yields the managed volumes of a module and of the modules below it. `path`: names of the
    module calls that lead to it, from the root."""
    for resource in module.get("resources") or ():
        values = resource.get("values") or {}
        if resource.get("type") == "aws_ebs_volume" and resource.get("mode") == "managed" and values.get("id"):
            yield _StateVolume(resource["address"], path, resource["name"], values)
    for child in module.get("child_modules") or ():
        # `module.a["x"].module.b`: names alone say where it is configured.
        names = tuple(name for name in re.split(r"\.?module\.", INDEX.sub("", child.get("address") or "")) if name)
        yield from _list_volumes(child, names)


class _PatchBuilder:
    def __init__(self, root: Path) -> None:
        """Raises InputError where `root` is not a folder."""
        if not root.is_dir():
            raise refuse.input(str(root), "is not a folder", "Name the folder of the root module's .tf files.")
        self.root = root.resolve()
        self.folders: dict[Path, _Folder] = {}
        self.texts: dict[Path, str] = {}
        self.notes: list[TerraformNote] = []

    def make(self, state: dict[str, _StateVolume], changes: Sequence[VolumeChange]) -> TerraformPatch:
        """Returns the patch of the changes whose volumes are in the state, and collects its notes.
        Raises InputError where none of them is."""
        here = [change for change in changes if change.volume_id in state]
        if changes and not here:
            rule = "has none of the volumes that change: it is of another workspace, account or fleet"
            hint = "Select the workspace (terraform workspace select), and run terraform show -json again."
            raise refuse_state.input(f"the state of {len(state)} volumes", rule, hint)
        if len(here) < len(changes):
            self.note("", f"{len(changes) - len(here)} volumes that change are not in this state.")
        # Two calls of one local module share its files: what changes for one changes for both.
        groups: dict[tuple[object, str], list[tuple[VolumeChange, _StateVolume]]] = defaultdict(list)
        for change in here:
            volume = state[change.volume_id]
            if self._is_as_planned(change, volume):
                groups[self._get_key(volume)].append((change, volume))
        siblings: dict[tuple[object, str], int] = defaultdict(int)
        for volume in state.values():
            # A module that cannot be read has no resource of those that change.
            with contextlib.suppress(InputError):
                siblings[self._get_key(volume)] += 1
        edits: dict[Path, list[tuple[int, int, str]]] = defaultdict(list)
        expected: dict[tuple[Path, str], dict[str, str | None]] = {}
        written: list[str] = []
        for key, members in groups.items():
            outcome = self._edit_resource(members, siblings[key])
            if outcome is None:
                continue
            resource, own_edits, arguments = outcome
            edits[resource.file] += own_edits
            expected[resource.file, members[0][1].name] = arguments
            written += [change.volume_id for change, _ in members]
        return TerraformPatch(self._build_diff(edits, expected), tuple(self.notes), tuple(written))

    def note(self, address: str, what: str) -> None:
        self.notes.append(TerraformNote(address, what))

    def _is_as_planned(self, change: VolumeChange, volume: _StateVolume) -> bool:
        """Returns whether the state says of a volume what the inventory does."""
        owner = str(volume.values.get("arn") or "").split(":")
        if change.account.isdigit() and len(owner) > 4 and owner[4] not in ("", change.account):
            rule = f"is of account {owner[4]}, and the inventory says {change.account}"
            raise refuse_state.input(volume.address, rule, "Give the state of the same account and workspace.")
        state_values = volume.values
        bought = {"iops": change.before.iops, "throughput": change.before.mib_s}
        expected = {"type": change.before.type, "size": change.before.size_gib} | {k: v for k, v in bought.items() if v}
        wrong = [f"{key} {state_values.get(key)}" for key, value in expected.items() if state_values.get(key) != value]
        if wrong:
            self.note(
                volume.address,
                f"the state says {', '.join(wrong)}, and EC2 {change.before}: run terraform plan -refresh-only first.",
            )
        return not wrong

    # --- a resource --------------------------------------------------

    def _edit_resource(self, members: list[tuple[VolumeChange, _StateVolume]], siblings: int):
        """Returns a resource, its edits (start, end, new text) and the values of its arguments
        after them; None, with a note, where it must be changed by hand. `siblings`: how many
        volumes of the state the resource makes."""
        change, volume = members[0]
        address = INDEX.sub("", volume.address) if siblings > 1 else volume.address
        resource = self._find_resource(volume)
        if resource is None:
            return None
        targets = {change.after for change, _ in members}
        if len(targets) > 1 or len(members) < siblings:
            how = (
                f"{len(members)} of its {siblings} instances change"
                if len(members) < siblings
                else "its instances change differently"
            )
            for change, volume in members:
                self.note(
                    volume.address,
                    f"{how}, and they share their arguments: set {_format_arguments(change.after)} for this one.",
                )
            return None
        edits: list[tuple[int, int, str]] = []
        arguments: dict[str, str | None] = {}
        after = _format_values(change.after)
        for name in ARGUMENTS:
            if after[name] == _format_values(change.before)[name] and name not in resource.attributes:
                continue
            if not self._edit(address, resource, name, after[name], edits, arguments):
                return None
        ignored = sorted(resource.ignored & set(arguments))
        if ignored:
            self.note(address, f"lifecycle.ignore_changes has {', '.join(ignored)}: Terraform will not change it.")
        return (resource, edits, arguments) if edits else None

    def _edit(
        self, address: str, resource: _Resource, name: str, value: str | None, edits: list, arguments: dict
    ) -> bool:
        """Adds to `edits` what gives an argument its value (None: takes it out), and to `arguments`
        the value. Returns False, with a note, where it must be done by hand."""
        attribute = resource.attributes.get(name)
        arguments[name] = value
        if attribute is None:
            if value is not None:
                line = f"{name} = {_format_value(name, value)}"
                after = next(
                    resource.attributes[argument] for argument in _list_anchors(name) if argument in resource.attributes
                )
                if not after.alone:
                    self.note(address, f"{line} is to be added; its arguments stand on one line.")
                    return False
                edits.append((after.whole[1], after.whole[1], f"{after.end_of_line}{resource.indent}{line}"))
            return True
        if attribute.literal is None:
            what = ", ".join(dict.fromkeys(REFERENCE.findall(attribute.text))) or attribute.text[:60]
            action = "is to be taken out" if value is None else f"must become {_format_value(name, value)}"
            self.note(address, f"{name} is {what}, not a literal: it {action}.")
            return False
        if value is None:
            if not attribute.alone:
                self.note(address, f"{name} is to be taken out; its arguments stand on one line.")
                return False
            edits.append((*attribute.whole, ""))
        elif attribute.literal != value:
            quoted = attribute.text.startswith('"')
            edits.append((*attribute.value, f'"{value}"' if quoted else _format_value(name, value)))
        return True

    def _find_module_folder(self, volume: _StateVolume) -> tuple[_Folder | None, str]:
        """Returns the folder of a volume's module; or None, and in words where the module comes
        from."""
        folder = self._read_folder(self.root)
        for name in volume.module:
            source = folder.modules.get(name)
            if source is None or not source.startswith("."):
                where = f"module {name} comes from {source}" if source else f"module {name} is not in {folder.path}"
                return None, where
            folder = self._read_folder((folder.path / source).resolve())
        return folder, ""

    def _get_key(self, volume: _StateVolume) -> tuple[object, str]:
        """Returns the key of the resource that makes a volume: its folder and name."""
        folder, _ = self._find_module_folder(volume)
        return (volume.module if folder is None else folder.path), volume.name

    def _find_resource(self, volume: _StateVolume) -> _Resource | None:
        """Returns the resource of a volume in the .tf files; None, with a note, if it is not there
        or has arguments of neither type nor size."""
        folder, where = self._find_module_folder(volume)
        if folder is None:
            self.note(volume.address, f"{where}: change it there.")
            return None
        resource = folder.resources.get(volume.name)
        if resource is None:
            self.note(
                volume.address, f"its resource is not in the .tf files of {folder.path}: is that the right folder?"
            )
        elif "type" not in resource.attributes and "size" not in resource.attributes:
            self.note(volume.address, "its resource has neither type nor size as arguments.")
            return None
        return resource

    # --- files --------------------------------------------------

    def _read_folder(self, path: Path) -> _Folder:
        """Reads the .tf files of a folder once, and returns their resources and modules. Raises
        InputError."""
        if path not in self.folders:
            folder = _Folder(path)
            for file in sorted(path.glob("*.tf")):
                try:
                    self.texts[file] = text = read_bytes(file, MAX_FILE_BYTES).decode("utf-8-sig")
                except UnicodeDecodeError:
                    raise InputError(str(file), "is not UTF-8 text", "HCL 2", "Save it as UTF-8.") from None
                _read_blocks(_parse_tree(file, text), text, file, folder)
            self.folders[path] = folder
        return self.folders[path]

    def _build_diff(self, edits: dict[Path, list], expected: dict) -> str:
        """Returns the unified diff of the edits (start, end, new text; places in characters), with
        paths from the nearest folder above all files. `expected`: arguments of each resource
        afterwards."""
        parts = []
        base = Path(os.path.commonpath([self.root, *(file.resolve().parent for file in edits)]))
        if base != self.root:
            self.note("", f"Apply the diff in {base}: it changes files outside {self.root}.")
            parts.append(f"# Apply in {base}: git apply, or patch -p1.\n")
        for file in sorted(edits):
            before, after = self.texts[file], self.texts[file]
            # From the end; of those at one place the last first, so that they stand in order.
            for start, end, text in reversed(sorted(edits[file], key=lambda edit: edit[:2])):
                after = after[:start] + text + after[end:]
            self._check_text(file, after, expected)
            name = file.resolve().relative_to(base)
            lines = difflib.unified_diff(_split_lines(before), _split_lines(after), f"a/{name}", f"b/{name}")
            parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
        return "".join(parts)

    def _check_text(self, file: Path, after: str, expected: dict) -> None:
        """Checks that the file as it will be has the expected arguments, and otherwise the same as
        before. Raises CouldNotRun."""
        old, new = _Folder(file.parent), _Folder(file.parent)
        _read_blocks(_parse_tree(file, self.texts[file]), self.texts[file], file, old)
        _read_blocks(_parse_tree(file, after), after, file, new)
        for name, resource in new.resources.items():
            arguments = {key: part.literal or part.text for key, part in old.resources[name].attributes.items()}
            arguments |= expected.get((file, name), {})
            says = {key: part.literal or part.text for key, part in resource.attributes.items()}
            if says != {key: value for key, value in arguments.items() if value is not None}:
                rule = f"could not be changed safely at aws_ebs_volume.{name}"
                raise CouldNotRun(str(file), rule, "", "Change it by hand.")


def _split_lines(text: str) -> list[str]:
    """Splits into lines at \n only and keeps the line ends."""
    lines = [f"{line}\n" for line in text.split("\n")]
    return [*lines[:-1], lines[-1][:-1]] if lines[-1] != "\n" else lines[:-1]


def _format_values(setting: VolumeSetting) -> dict[str, str | None]:
    figures = (setting.type, setting.size_gib, setting.iops, setting.mib_s)
    return {name: None if figure is None else str(figure) for name, figure in zip(ARGUMENTS, figures, strict=True)}


def _format_arguments(setting: VolumeSetting) -> str:
    return ", ".join(
        f"{name} = {_format_value(name, value)}" for name, value in _format_values(setting).items() if value is not None
    )


def _format_value(name: str, value: str) -> str:
    return f'"{value}"' if name == "type" else value


def _list_anchors(name: str) -> list[str]:
    """Returns the arguments behind which a new one may stand, the nearest first."""
    return [*reversed(ARGUMENTS[: ARGUMENTS.index(name)]), *ARGUMENTS]


# --- the tree of python-hcl2 --------------------------------------------------


def _parse_tree(file: Path, text: str) -> _Node:
    """Parses a file with python-hcl2. Raises CouldNotRun without it, InputError for what is not
    HCL."""
    try:
        import hcl2
    except ImportError:
        hint = "Install it: pip install 'headrace[terraform]'."
        raise CouldNotRun("Terraform files", "are read with python-hcl2, which is not installed", "", hint) from None
    try:
        # python-hcl2's grammar wants the last line ended.
        return hcl2.parses_to_tree(text if text.endswith("\n") else f"{text}\n")
    except Exception as error:  # the parser's own errors have no common class
        at = getattr(error, "line", None)
        where = f"{shorten_name(file.name)}, line {at}" if at else shorten_name(file.name)
        raise InputError(where, "is not HCL that python-hcl2 reads", "HCL 2", "Run terraform validate.") from None


def _read_blocks(tree: _Node, text: str, file: Path, folder: _Folder) -> None:
    """Adds the volumes' resources and the modules of a file to its folder."""
    for block in tree.find_data("block"):
        labels = [_get_label(child) for child in block.children if _get_kind(child) in ("identifier", "string")]
        body = next(child for child in block.children if _get_kind(child) == "body")
        if labels[:2] == ["resource", "aws_ebs_volume"] and len(labels) == 3:
            folder.resources[labels[2]] = _read_resource(body, text, file)
        elif labels[:1] == ["module"] and len(labels) == 2:
            source = _read_attributes(body, text, file).get("source")
            folder.modules[labels[1]] = (source.literal or source.text) if source else ""


def _read_resource(body: _Node, text: str, file: Path) -> _Resource:
    """Returns the resource in a block's body: its arguments, those that lifecycle.ignore_changes
    names (all for `all`), and the indent of its lines."""
    attributes = _read_attributes(body, text, file)
    ignored: set[str] = set()
    for block in (child for child in body.children if _get_kind(child) == "block"):
        if _get_label(block.children[0]) == "lifecycle":
            inner = next(child for child in block.children if _get_kind(child) == "body")
            ignore = _read_attributes(inner, text, file).get("ignore_changes")
            ignored = set(re.findall(r"[A-Za-z_]+", ignore.text)) if ignore else set()
            ignored |= set(ARGUMENTS) if "all" in ignored else set()
    first = next(iter(attributes.values()), None)
    start = text.rfind("\n", 0, first.whole[1]) + 1 if first else 0
    indent = re.match(r"[ \t]*", text[start:])
    return _Resource(file, attributes, ignored, indent[0] if indent else "  ")


def _read_attributes(body: _Node, text: str, file: Path) -> dict[str, _Attribute]:
    """Returns the arguments of a block's body by name, with the places of value and line in
    characters. Raises InputError for one that stands twice."""
    attributes = {}
    for child in body.children:
        if _get_kind(child) != "attribute":
            continue
        name, value = _get_label(child.children[0]), child.children[-1]
        if name in attributes:
            line = text.count("\n", 0, child.meta.start_pos) + 1
            place = f"{shorten_name(file.name)}, line {line}: {name}"
            raise InputError(place, "stands twice in one block", "HCL 2", "Run terraform validate.")
        start, end = value.meta.start_pos, value.meta.end_pos
        # A line is taken out from the end of the line before to its own.
        begin = text.rfind("\n", 0, child.meta.start_pos)
        stop = text.find("\n", end)
        stop = stop if stop >= 0 else len(text)
        carriage = stop > end and text[stop - 1] == "\r"
        begin, stop = max(begin - carriage, 0), stop - carriage
        written = text[start:end]
        literal = re.fullmatch(r'"([^"$%\\]*)"|(\d+)', written)
        attributes[name] = _Attribute(
            (start, end),
            (begin, stop),
            text[end:stop].strip()[:2] in ("", "//", "/*") or text[end:stop].strip().startswith("#"),
            "\r\n" if carriage else "\n",
            literal and (literal[1] or literal[2]),
            written,
        )
    return attributes


def _get_kind(node: _Node) -> str:
    return str(getattr(node, "data", ""))


def _get_label(node: _Node) -> str:
    """Returns the name in an identifier or a plain string."""
    return "".join(str(token) for token in node.scan_values(lambda token: token.type in ("NAME", "STRING_CHARS")))
