"""Diffs of Terraform files, applied with patch(1) and read back by python-hcl2: what was to change has, nothing else."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import hcl2
import pytest

from headrace.errors import HeadraceError
from headrace.operate.fleet.applying.changes import VolumeChange, VolumeSetting
from headrace.operate.fleet.applying.terraform import TerraformPatch, build_terraform_patch

GP2 = VolumeSetting("gp2", 500, None, None)
GP3 = VolumeSetting("gp3", 500, 3000, 125)
MINE = "111111111111"


def change(volume: str, before: VolumeSetting, after: VolumeSetting) -> VolumeChange:
    return VolumeChange(volume, "", "us-east-1", MINE, volume, before, after, -10.0)


def resource(volume: str, address: str, setting: VolumeSetting, account: str = MINE) -> dict[str, Any]:
    values = {"id": volume, "arn": f"arn:aws:ec2:us-east-1:{account}:volume/{volume}", "type": setting.type}
    values |= {"size": setting.size_gib, "iops": setting.iops or 1500, "throughput": setting.mib_s or 0}
    name = address.split("aws_ebs_volume.")[1].split("[")[0]
    return {"address": address, "mode": "managed", "type": "aws_ebs_volume", "name": name, "values": values}


def state(folder: Path, resources: list[dict], modules: list[dict] | None = None) -> Path:
    root = {"resources": resources, "child_modules": modules or []}
    path = folder / "state.json"
    path.write_text(json.dumps({"format_version": "1.0", "values": {"root_module": root}}))
    return path


def make_patch(folder: Path, text: str, resources: list[dict], changes: list[VolumeChange]) -> TerraformPatch:
    folder.mkdir(exist_ok=True)
    (folder / "main.tf").write_bytes(text.encode())
    return build_terraform_patch(state(folder, resources), folder, changes)


def applied(folder: Path, diff: str) -> str:
    done = subprocess.run(
        ["patch", "-p1", "--binary"], cwd=folder, input=diff.encode(), capture_output=True, timeout=30
    )
    assert done.returncode == 0, (done.stdout, diff)
    return (folder / "main.tf").read_bytes().decode()


def test_a_type_with_what_is_bought(tmp_path):
    text = """resource "aws_ebs_volume" "data" {
  availability_zone = "us-east-1a"
  type              = "gp2" # cheap once
  size              = 500   # GiB
  tags = { Name = "type = gp2" }
}
"""
    result = make_patch(tmp_path, text, [resource("vol-1", "aws_ebs_volume.data", GP2)], [change("vol-1", GP2, GP3)])
    assert result.notes == () and result.written == ("vol-1",)
    assert (tmp_path / "main.tf").read_text() == text  # never written
    assert result.diff.splitlines()[:2] == ["--- a/main.tf", "+++ b/main.tf"]
    assert [line for line in result.diff.splitlines()[3:] if line[0] != " "] == [
        '-  type              = "gp2" # cheap once',
        '+  type              = "gp3" # cheap once',
        "+  iops = 3000",
        "+  throughput = 125",
    ]
    [block] = hcl2.loads(applied(tmp_path, result.diff))["resource"]
    says = block['"aws_ebs_volume"']['"data"']
    assert (says["type"], says["size"], says["iops"], says["throughput"]) == ('"gp3"', 500, 3000, 125)


# Text in the place of a value, and the message about it.
BY_HAND = {
    "a variable": ("type = var.kind\n  size = 500", "type is var.kind, not a literal: it must become \"gp3\""),
    "an expression": ('type = var.big ? "io2" : "gp2"\n  size = 500', "type is var.big, not a literal"),
    "each": ("type = each.value.type\n  size = 500", "type is each.value.type, not a literal"),
    "a template": ('type = "${local.kind}"\n  size = 500', "type is local.kind, not a literal"),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_what_is_no_literal_is_named(tmp_path, case):
    body, message = BY_HAND[case]
    text = f'resource "aws_ebs_volume" "data" {{\n  {body}\n}}\n'
    result = make_patch(tmp_path, text, [resource("vol-1", "aws_ebs_volume.data", GP2)], [change("vol-1", GP2, GP3)])
    assert result.diff == "" and result.written == ()
    assert message in result.notes[0].what and result.notes[0].address == "aws_ebs_volume.data"


def test_instances_change_together_or_by_hand(tmp_path):
    text = 'resource "aws_ebs_volume" "data" {\n  count = 2\n  type  = "gp2"\n  size  = 500\n}\n'
    pair = [resource(f"vol-{number}", f"aws_ebs_volume.data[{number}]", GP2) for number in (0, 1)]
    both = [change(row["values"]["id"], GP2, GP3) for row in pair]
    result = make_patch(tmp_path, text, pair, both)
    assert result.written == ("vol-0", "vol-1") and result.notes == ()
    assert hcl2.loads(applied(tmp_path, result.diff))["resource"][0]['"aws_ebs_volume"']['"data"']["type"] == '"gp3"'
    result = make_patch(tmp_path, text, pair, both[:1])
    assert result.diff == "" and "1 of its 2 instances" in result.notes[0].what
    result = make_patch(tmp_path, text, pair, [both[0], replace(both[1], after=replace(GP3, iops=4000))])
    assert result.diff == "" and "differently" in result.notes[0].what and "iops = 4000" in result.notes[1].what


def test_modules_in_folders_here_and_elsewhere(tmp_path):
    inner = tmp_path / "modules/db"
    inner.mkdir(parents=True)
    (inner / "volumes.tf").write_text(
        'resource "aws_ebs_volume" "data" {\n  type = "io1"\n  size = 500\n  iops = 9000\n}\n'
    )
    text = 'module "db" {\n  source = "./modules/db"\n}\nmodule "far" {\n  source = "terraform-aws-modules/x/aws"\n}\n'
    io1 = VolumeSetting("io1", 500, 9000, None)
    near = {"address": 'module.db["a"]', "resources": [resource("vol-1", 'module.db["a"].aws_ebs_volume.data', io1)]}
    far = {"address": "module.far", "resources": [resource("vol-2", "module.far.aws_ebs_volume.data", io1)]}
    (tmp_path / "main.tf").write_text(text)
    changes = [change(volume, io1, GP2) for volume in ("vol-1", "vol-2")]
    patch = build_terraform_patch(state(tmp_path, [], [near, far]), tmp_path, changes)
    assert patch.diff.startswith("--- a/modules/db/volumes.tf\n") and "-  iops = 9000" in patch.diff
    assert [note.what for note in patch.notes] == [
        "module far comes from terraform-aws-modules/x/aws: change it there."
    ]


def test_a_state_that_is_stale_or_ignored_is_told(tmp_path):
    text = 'resource "aws_ebs_volume" "data" {\n  type = "gp2"\n  size = 500\n  lifecycle {\n    ignore_changes = [type]\n  }\n}\n'
    entry = resource("vol-1", "aws_ebs_volume.data", GP2)
    result = make_patch(tmp_path, text, [entry], [change("vol-1", GP2, GP3)])
    assert "ignore_changes has type" in result.notes[0].what
    result = make_patch(
        tmp_path, text, [entry], [change("vol-1", replace(GP2, size_gib=600), replace(GP3, size_gib=600))]
    )
    assert result.diff == "" and "the state says size 500" in result.notes[0].what


REFUSED = {
    "another workspace": ([resource("vol-9", "aws_ebs_volume.data", GP2)], "another workspace"),
    "another account": (
        [resource("vol-1", "aws_ebs_volume.data", GP2, account="999999999999")],
        "account 999999999999",
    ),
    "no volume": ([], "has no aws_ebs_volume"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_workspace_is_refused(tmp_path, case):
    resources, rule = REFUSED[case]
    with pytest.raises(HeadraceError) as refused:
        make_patch(tmp_path, "", resources, [change("vol-1", GP2, GP3)])
    assert rule in refused.value.rule


def test_files_that_are_no_state(tmp_path):
    path = tmp_path / "state.json"
    for text in (
        "",
        "# aws_ebs_volume.data:\n",
        "[]",
        '{"version": 4, "lineage": "x"}',
        '{"format_version": "1", "planned_values": {}}',
    ):
        path.write_text(text)
        with pytest.raises(HeadraceError) as refused:
            build_terraform_patch(path, tmp_path, [])
        assert refused.value.hint
    with pytest.raises(HeadraceError):
        build_terraform_patch(path, tmp_path / "gone", [])
    with pytest.raises(HeadraceError, match="not HCL"):
        make_patch(
            tmp_path,
            'resource "aws_ebs_volume" {{',
            [resource("vol-1", "aws_ebs_volume.data", GP2)],
            [change("vol-1", GP2, GP3)],
        )


SETTINGS = [
    GP2,
    GP3,
    replace(GP3, iops=6000, mib_s=500),
    VolumeSetting("io1", 500, 9000, None),
    VolumeSetting("st1", 600, None, None),
]


def written(chance: random.Random, name: str, setting: VolumeSetting, eol: str) -> str:
    """A resource as people write it."""
    given: list[tuple[str, Any]] = [
        ("availability_zone", '"us-east-1a"'),
        ("type", f'"{setting.type}"'),
        ("size", setting.size_gib),
    ]
    given += [
        (key, figure) for key, figure in (("iops", setting.iops), ("throughput", setting.mib_s)) if figure is not None
    ]
    chance.shuffle(given)
    indent = chance.choice(["  ", "    ", "\t"])
    lines = [f'resource "aws_ebs_volume" "{name}" {{{chance.choice(["", " # a volume"])}']
    for key, value in given:
        value = f'"{value}"' if isinstance(value, int) and chance.random() < 0.2 else value
        lines += chance.choice([[], [], [""], [f"{indent}# size = 7"], [f"{indent}/* type = x */"]])
        lines.append(
            f"{indent}{key}{' ' * chance.randint(0, 9)}={' ' * chance.randint(0, 2)}{value}{chance.choice(['', ' # was 3', ' // y'])}"
        )
    lines += chance.choice(
        [[], [f"{indent}tags = {{", f'{indent * 2}Name = "é {name}"', f"{indent * 2}size = 4", f"{indent}}}"]]
    )
    return eol.join([*lines, "}", ""])


@pytest.mark.parametrize("seed", range(25))
def test_random_files_read_back(tmp_path, seed):
    """Against a naive reference: the values that python-hcl2 reads of the file before, with those of the change put in."""
    chance = random.Random(seed)
    eol = chance.choice(["\n", "\n", "\r\n"])
    names = [f"v{number}" for number in range(chance.randint(1, 6))]
    before = {name: chance.choice(SETTINGS) for name in names}
    text = eol.join(written(chance, name, before[name], eol) for name in names)
    after = {
        name: chance.choice([setting for setting in SETTINGS if setting.size_gib >= before[name].size_gib])
        for name in names
    }
    changes = [change(f"vol-{name}", before[name], after[name]) for name in names if before[name] != after[name]]
    resources = [resource(f"vol-{name}", f"aws_ebs_volume.{name}", before[name]) for name in names]
    result = make_patch(tmp_path, text, resources, changes)
    assert not result.notes and len(result.written) == len(changes)
    expected = read(text)
    for name in names if changes else []:
        figures = {"iops": after[name].iops, "throughput": after[name].mib_s}
        expected[name] |= {"type": after[name].type, "size": str(after[name].size_gib)}
        expected[name] |= {key: str(figure) for key, figure in figures.items() if figure is not None}
        for key in (key for key, figure in figures.items() if figure is None):
            expected[name].pop(key, None)
    assert read(applied(tmp_path, result.diff) if changes else text) == expected


def read(text: str) -> dict[str, dict[str, Any]]:
    texts = {}
    for block in hcl2.loads(text)["resource"]:
        for name, says in block['"aws_ebs_volume"'].items():
            texts[name.strip('"')] = {
                key: str(value).strip('"') for key, value in says.items() if not key.startswith("__")
            }
    return texts


def two_calls(folder: Path) -> tuple[list[dict], VolumeSetting]:
    """Two calls of one local module, each with a volume; the files are those of both."""
    inner = folder / "modules/db"
    inner.mkdir(parents=True)
    (inner / "main.tf").write_text('resource "aws_ebs_volume" "data" {\n  type = "gp2"\n  size = 500\n}\n')
    calls = "".join(f'module "{name}" {{\n  source = "./modules/db"\n}}\n' for name in "ab")
    (folder / "main.tf").write_text(calls)
    modules = [
        {"address": f"module.{name}", "resources": [resource(volume, f"module.{name}.aws_ebs_volume.data", GP2)]}
        for name, volume in (("a", "vol-1"), ("b", "vol-2"))
    ]
    return modules, GP2


def test_two_calls_of_a_module_change_together_or_not_at_all(tmp_path):
    """The advice was for one: the files of its module are those of the other as well."""
    modules, before = two_calls(tmp_path)
    patch = build_terraform_patch(state(tmp_path, [], modules), tmp_path, [change("vol-1", before, GP3)])
    assert patch.diff == "" and patch.written == ()
    assert "1 of its 2 instances change" in patch.notes[0].what
    both = [change(volume, before, GP3) for volume in ("vol-1", "vol-2")]
    patch = build_terraform_patch(state(tmp_path, [], modules), tmp_path, both)
    assert set(patch.written) == {"vol-1", "vol-2"} and patch.diff.count("+  iops = 3000") == 1
    apart = [both[0], change("vol-2", before, VolumeSetting("gp3", 500, 6000, 250))]
    patch = build_terraform_patch(state(tmp_path, [], modules), tmp_path, apart)
    assert patch.diff == "" and "change differently" in patch.notes[0].what


def test_a_module_outside_the_root_is_changed_from_the_folder_above_both(tmp_path):
    root, inner = tmp_path / "envs/prod", tmp_path / "modules/db"
    root.mkdir(parents=True)
    inner.mkdir(parents=True)
    (inner / "main.tf").write_text('resource "aws_ebs_volume" "data" {\n  type = "gp2"\n  size = 500\n}\n')
    (root / "main.tf").write_text('module "db" {\n  source = "../../modules/db"\n}\n')
    module = {"address": "module.db", "resources": [resource("vol-1", "module.db.aws_ebs_volume.data", GP2)]}
    patch = build_terraform_patch(state(tmp_path, [], [module]), root, [change("vol-1", GP2, GP3)])
    assert patch.diff.startswith(f"# Apply in {tmp_path}: git apply, or patch -p1.\n--- a/modules/db/main.tf\n")
    assert patch.notes[0].what == f"Apply the diff in {tmp_path}: it changes files outside {root}."
    for words in (["patch", "-p1"], ["git", "apply", "-R"]):
        done = subprocess.run(words, cwd=tmp_path, input=patch.diff.encode(), capture_output=True, timeout=30)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert '"gp2"' in (inner / "main.tf").read_text()


def test_an_argument_that_stands_twice_is_refused(tmp_path):
    text = 'resource "aws_ebs_volume" "data" {\n  type = "gp2"\n  size = 500\n  size = 600\n}\n'
    with pytest.raises(HeadraceError, match="stands twice in one block") as refused:
        make_patch(tmp_path, text, [resource("vol-1", "aws_ebs_volume.data", GP2)], [change("vol-1", GP2, GP3)])
    assert refused.value.value == "main.tf, line 4: size"


def test_a_module_that_cannot_be_read_stops_no_other(tmp_path):
    modules, before = two_calls(tmp_path)
    broken = tmp_path / "modules/broken"
    broken.mkdir()
    (broken / "main.tf").write_text('resource "aws_ebs_volume" {{{\n')
    with (tmp_path / "main.tf").open("a") as file:
        file.write('module "c" {\n  source = "./modules/broken"\n}\n')
    other = {"address": "module.c", "resources": [resource("vol-3", "module.c.aws_ebs_volume.data", GP2)]}
    both = [change(volume, before, GP3) for volume in ("vol-1", "vol-2")]
    patch = build_terraform_patch(state(tmp_path, [], [*modules, other]), tmp_path, both)
    assert set(patch.written) == {"vol-1", "vol-2"}
    with pytest.raises(HeadraceError, match="not HCL"):
        build_terraform_patch(state(tmp_path, [], [*modules, other]), tmp_path, [change("vol-3", before, GP3)])
