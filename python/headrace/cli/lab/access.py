"""`headrace lab init` and `headrace lab user`: who may use the lab's AWS endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import CommandGroup, LabPlace, OutputOption, flag, option
from headrace.cli.output import print_answer, say, table
from headrace.lab.place import API_PORT

# The region of a lab that is not up yet and was never told another: the daemon's own default.
REGION = "us-east-1"

users = CommandGroup("Give others keys of their own, with IAM policies.")

EndpointPort = Annotated[int, option("PORT", "Port of the endpoint, where the lab is not up.", min=1, max=65535)]


def _folder(place: LabPlace) -> Path:
    from headrace.lab.launch import folder_of
    from headrace.lab.place import place as place_of

    return folder_of(place_of(place.data_dir, place.socket))


def init(
    place: LabPlace,
    force: Annotated[bool, flag("--force", "Replace a profile of this name that says something else.")] = False,
    no_profile: Annotated[bool, flag("--no-profile", "Write no profile; print its lines.")] = False,
    api_port: EndpointPort = API_PORT,
) -> None:
    """Make the lab's key pair, and the profile `headrace` of the AWS tools.

    The key pair is made once; what else stands in ~/.aws stays as it is.
    """
    from headrace.api.access import keys, profile
    from headrace.api.server.startup import find, wait_for_keys

    folder = _folder(place)
    pair, made = keys.root_pair(folder)
    wait_for_keys(folder)
    say(f"{'made' if made else 'kept'} the key pair {pair.access_key} in {keys.folder_of(folder)}")
    endpoint = find(folder)
    url, region = (endpoint.url, endpoint.region) if endpoint else (f"http://127.0.0.1:{api_port}", REGION)
    parts = profile.sections(pair.access_key, pair.secret, region, url)
    if no_profile:
        where = profile.home()
        for kind, path in (("config", where.config), ("credentials", where.credentials)):
            say(f"for {path}:")
            print("\n".join([*profile.lines(*parts[kind]), ""]))
        return
    for path in profile.write(profile.home(), parts, force) or [None]:
        say(f"wrote the profile {profile.NAME} to {path}" if path else f"the profile {profile.NAME} is as it has to be")
    if endpoint is None:
        say("the lab has no endpoint yet: sudo headrace lab up")
    say(f"try: aws --profile {profile.NAME} ec2 describe-volumes")


@users.command("add")
def user_add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")],
    policy: Annotated[list[Path], option("FILE", "IAM policy document (JSON); several times for several.")],
    place: LabPlace,
) -> None:
    """Make a user with a key pair, and print the lines of a profile for it."""
    from headrace.api.access import keys
    from headrace.api.server.startup import find, wait_for_keys

    folder = _folder(place)
    pair = keys.add_user(folder, name, policy)
    wait_for_keys(folder)
    endpoint = find(folder)
    url, region = (endpoint.url, endpoint.region) if endpoint else (f"http://127.0.0.1:{API_PORT}", REGION)
    say(f"made user {name}; the secret is shown once, and lies in {keys.folder_of(folder)}")
    print(f"[headrace-{name}]\naws_access_key_id = {pair.access_key}\naws_secret_access_key = {pair.secret}")
    print(f"region = {region}\nendpoint_url = {url}")


@users.command("list")
def user_list(place: LabPlace, output: OutputOption = "table") -> None:
    """Show the users, their keys and how many policies they have; no secrets."""
    from headrace.api.access import keys

    columns = ("user", "access_key_id", "policies")
    rows = [
        {
            "user": pair.user,
            "access_key_id": pair.access_key,
            "policies": None if pair.policies is None else len(pair.policies),
        }
        for pair in keys.read_pairs(_folder(place)).values()
    ]
    cells = [(row["user"], row["access_key_id"], "all" if row["policies"] is None else row["policies"]) for row in rows]
    print_answer(rows, output, rows, columns, lambda: (table(columns, cells),))


@users.command("remove")
def user_remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")], place: LabPlace
) -> None:
    """Remove a user; its key is refused from then on."""
    from headrace.api.access import keys
    from headrace.api.server.startup import wait_for_keys

    keys.remove_user(_folder(place), name)
    wait_for_keys(_folder(place))
    say(f"removed user {name}")


def add_access(app: CommandGroup) -> None:
    """Puts these commands into `headrace lab`."""
    app.command()(init)
    app.add_typer(users, name="user")
