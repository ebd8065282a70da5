"""`headrace lab key`: the keys under which volumes and snapshots are encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.lab.common import format_tags, read_tags
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    OutputOption,
    TagOption,
    YesOption,
    make_flag,
    make_option,
    open_lab,
)
from headrace.cli.output import confirm, format_pairs, make_table, print_answer, say
from headrace.cli.sharing import read_epilog
from headrace.errors import HeadraceError, InputError, Refusals

if TYPE_CHECKING:
    from headrace.lab import Lab, calls

with defer_imports():
    from headrace.lab import client as lab_client
    from headrace.lab import key_file


EPILOG = read_epilog("lab-key")

commands = CommandGroup("Make, disable and delete the keys of encrypted volumes.", EPILOG)

# Beginning of the name of every alias (KMS API, CreateAlias).
ALIAS = "alias/"
# Aliases of AWS's own keys (KMS API, CreateAlias: reserved).
AWS_ALIAS = "alias/aws/"
ALIAS_SOURCE = "KMS API, CreateAlias"
refuse = Refusals("headrace lab key --help")
State = Literal["enabled", "disabled", "pending-deletion"]
COLUMNS = ("id", "arn", "state", "managed", "elsewhere", "aliases", "description", "created_at", "deletion_at")


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    """Returns aliases, and ids of keys without one; none when no lab answers."""
    try:
        with open_lab(context) as lab:
            names = [name for key in lab.keys()["keys"] for name in key["aliases"] or [key["id"]]]
    except (HeadraceError, OSError, KeyError):
        return []
    return [name for name in names if name.startswith(incomplete)]


Key = Annotated[str, typer.Argument(metavar="KEY", help="Id, ARN or alias.", autocompletion=_complete)]


def _make_alias(text: str) -> str:
    return text if text.startswith(ALIAS) else f"{ALIAS}{text}"


def _make_row(key: calls.Key) -> dict[str, object]:
    row: dict[str, object] = dict(key)
    return {name: row[name] for name in COLUMNS} | {"aliases": " ".join(key["aliases"])}


def _list_facts(key: calls.Key) -> list[tuple[str, object]]:
    """Returns names and values of a key for a person."""
    return [
        ("key", key["id"]),
        ("ARN", key["arn"]),
        ("aliases", ", ".join(key["aliases"])),
        ("is", key["elsewhere"]),
        ("state", key["state"]),
        ("deleted at", key["deletion_at"]),
        ("made by", "EBS" if key["managed"] else "a user"),
        ("created", key["created_at"]),
        ("tags", format_tags(key["tags"])),
        ("description", key["description"]),
    ]


def _print_key(key: calls.Key, output: str) -> None:
    print_answer(key, output, [_make_row(key)], COLUMNS, lambda: (format_pairs(_list_facts(key)),))


def _check_free_alias(lab: Lab, name: str | None) -> None:
    """Raises InputError for an alias that is in use or belongs to AWS, before a key is created for
    it."""
    if name is not None and name.startswith(AWS_ALIAS):
        raise InputError(name, f"names that begin with {AWS_ALIAS} belong to AWS", ALIAS_SOURCE, "Choose another name.")
    if name is not None and any(name == entry["alias"] for entry in lab.keys()["aliases"]):
        raise InputError(name, "is the alias of another key", "", "See `headrace lab key list`.")


def _set_alias(lab: Lab, name: str | None, key: calls.Key) -> calls.Key:
    """Gives a new key its alias, if a name was given, and returns the key. Raises HeadraceError,
    after it has said that the key exists."""
    if name is None:
        return key
    try:
        return lab.set_key_alias(name, key["id"])
    except HeadraceError:
        say(f"{key['id']}: made, but without an alias")
        raise


@commands.command()
def create(
    *,
    place: LabPlace,
    alias: Annotated[str | None, make_option("NAME", "Name it alias/NAME.")] = None,
    description: Annotated[str | None, make_option("TEXT", "Purpose of the key.")] = None,
    tag: TagOption = None,
    source: Annotated[
        Path | None,
        make_option("FILE", "Key file that `headrace lab key export` wrote, or - for standard input.", "--from"),
    ] = None,
    kms_endpoint: Annotated[
        str | None,
        make_option("URL", "Endpoint of the KMS that has the key: https://HOST, or http:// to this machine."),
    ] = None,
    kms_key: Annotated[str | None, make_option("KEY", "Id, ARN or alias of the key there.")] = None,
    kms_region: Annotated[str | None, make_option("REGION", "Region of that key. Default: that of its ARN.")] = None,
    kms_profile: Annotated[
        str | None,
        make_option("NAME", "Profile in the credentials file that the daemon finds. Default: its environment."),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Create a key, import one that another lab exported, or name one in another KMS."""
    key_tags = read_tags(tag)
    there = {"kms_key": kms_key, "kms_region": kms_region, "kms_profile": kms_profile}
    if source is not None and any(
        value is not None for value in (description, key_tags or None, kms_endpoint, kms_key)
    ):
        raise refuse.input(f"--from {source}", "is a whole key, with its description", "Leave all but --alias out.")
    material = None if source is None else key_file.read_key(source, say)
    if kms_endpoint is None and any(value is not None for value in there.values()):
        raise InputError(str(kms_key or kms_profile or kms_region), "is of a key elsewhere", "", "Name --kms-endpoint.")
    with place.open() as lab:
        name = None if alias is None else _make_alias(alias)
        _check_free_alias(lab, name)
        if material is not None:
            key = lab.import_key(material.id, material.material, material.description or None)
        else:
            key = lab.create_key(description, tags=key_tags or None, kms_endpoint=kms_endpoint, **there)
        key = _set_alias(lab, name, key)
    _print_key(key, output)


@commands.command()
def export(
    key: Key,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file, readable by its owner alone; - to a pipe.")],
    place: LabPlace,
) -> None:
    """Write a key to a file, for another lab.

    A person with the file can read all that the key protects: keep it where backups of secrets lie,
    and not with the snapshots.
    """
    key_file.check_free(file)
    with place.open() as lab:
        text = key_file.format_key(lab.export_key(key))
    key_file.write_key(file, text)
    if file != key_file.PIPE:
        say(f"{file}: who has it can read what {key} protects")


def _describe_protected(lab: Lab, arn: str) -> str:
    """Returns the number of volumes and snapshots under a key in words; "" for none."""
    volumes = sum(volume["kms_key"] == arn for volume in lab.volumes())
    snapshots = sum(snapshot["kms_key"] == arn for snapshot in lab_client.list_all_snapshots(lab))
    counts = ((volumes, "volume"), (snapshots, "snapshot"))
    return " and ".join(f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count)


@commands.command("list")
def list_keys(
    place: LabPlace,
    key: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="One key, in detail. Default: all.", autocompletion=_complete),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List the keys and their aliases, or show one; never its material."""
    with place.open() as lab:
        if key is not None:
            return _print_key(lab.describe_key(key), output)
        keys = lab.keys()["keys"]
    rows = [_make_row(key) for key in keys]
    cells = [
        (
            row["id"],
            row["aliases"],
            row["state"] if row["deletion_at"] is None else f"{row['state']} until {row['deletion_at']}",
            row["created_at"],
            row["description"],
        )
        for row in rows
    ]
    columns = ("key", "aliases", "state", "created", "description")
    print_answer(keys, output, rows, COLUMNS, lambda: (make_table(columns, cells),))


@commands.command()
def state(
    key: Key,
    state: Annotated[State, typer.Argument(metavar="STATE", help="enabled, disabled or pending-deletion.")],
    place: LabPlace,
    days: Annotated[
        int | None, make_option("DAYS", "pending-deletion: days of lab time until then. Default: 30.", min=7, max=30)
    ] = None,
    yes: YesOption = False,
) -> None:
    """Enable a key, disable it, or delete it after some days.

    A disabled key opens nothing more, but volumes that are attached go on until they are detached.
    Data that a deleted key encrypted are lost; `disabled` cancels a deletion that is pending.
    """
    if days is not None and state != "pending-deletion":
        raise refuse.input(f"--days with {state}", "belongs to pending-deletion", "Leave it out.")
    with place.open() as lab:
        if state == "pending-deletion":
            return _schedule_deletion(lab, key, days or 30, yes)
        details = lab.describe_key(key)
        if state == "enabled":
            details = lab.enable_key(key)
        elif details["deletion_at"] is not None:
            details = lab.cancel_key_deletion(key)
        else:
            details = lab.disable_key(key)
        protects = _describe_protected(lab, details["arn"]) if state == "disabled" else ""
    say(f"{details['id']}: {details['state']}")
    if protects:
        say(f"until it is enabled, nothing opens {protects}")


def _schedule_deletion(lab: Lab, key: str, days: int, yes: bool) -> None:
    """Schedules the deletion of a key after some days of lab time, after a question unless
    `yes`."""
    details = lab.describe_key(key)
    protects = _describe_protected(lab, details["arn"])
    also = f" Nobody can read {protects} then." if protects else ""
    confirm(yes, f"Delete {details['id']} ({details['description'] or key})?{also}", key, "would be deleted")
    details = lab.schedule_key_deletion(key, days)
    say(f"{details['id']}: {details['state']}, deleted at {details['deletion_at']}")
    if protects:
        say(f"nobody can read {protects} then; headrace lab key state {key} disabled keeps it")


@commands.command()
def alias(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the alias.")],
    place: LabPlace,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Id or ARN of the key.")] = None,
    remove: Annotated[bool, make_flag("--remove", "Remove the alias.")] = False,
) -> None:
    """Name a key, or let its name lead to another key."""
    if remove == (key is not None):
        raise InputError(name, "an alias has a key, or goes with --remove", "", "Give one of the two.")
    full_name = _make_alias(name)
    with place.open() as lab:
        if key is None:
            lab.delete_key_alias(full_name)
        else:
            exists = any(full_name == entry["alias"] for entry in lab.keys()["aliases"])
            lab.set_key_alias(full_name, key, exists)
    say(f"{full_name}: {'removed' if key is None else key}")


@commands.command()
def default(
    place: LabPlace,
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Id, ARN or alias.")] = None,
    encrypt_all: Annotated[
        bool | None,
        typer.Option(
            "--encrypt-all/--encrypt-asked", help="Encrypt all new volumes, or only those created with --encrypted."
        ),
    ] = None,
) -> None:
    """Show or set the default key, and what is encrypted."""
    with place.open() as lab:
        change = key is not None or encrypt_all is not None
        defaults = lab.set_encryption(encrypt_all, key) if change else lab.encryption_defaults()
    say(f"new volumes: {'all encrypted' if defaults['by_default'] else 'encrypted where they ask for it'}")
    say(f"their key: {defaults['key']}")
