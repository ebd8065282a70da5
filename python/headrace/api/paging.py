"""Pages lists so that deletes do not disturb: a token says after which id the next page begins."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from headrace.api.cache import CachedTable, Row
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest
from headrace.api.protocol.shapes import Members

# Begins every token, so that a token of another call or release is recognised.
MARK = b"headrace1:"
# An id, name or ARN; the longest are ARNs of 1,600 characters (CloudWatch's model).
MAX_TOKEN = 4096

Item = TypeVar("Item")


def make_token(call: str, key: str) -> str:
    """Returns the token of a page of `call`. `key`: the id, name or ARN of the last item before
    that page; for the blocks of a snapshot, the index at which it begins."""
    return base64.urlsafe_b64encode(MARK + f"{call}:{key}".encode()).decode("ascii")


def read_token(call: str, token: str, code: str = "InvalidParameterValue") -> str:
    """Reads the token of a page of `call` and returns the key that it was made with. Raises
    AwsError with `code` for a token of another call, or of none."""
    wrong = AwsError(code, "The token for the next page is not valid. Use the NextToken of this call's last answer.")
    if len(token) > MAX_TOKEN:
        raise wrong
    try:
        text = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise wrong from None
    start = f"{MARK.decode()}{call}:"
    if not text.startswith(start):
        raise wrong
    return text[len(start) :]


def cut_page(
    call: str,
    items: Sequence[Item],
    key: Callable[[Item], str],
    size: int | None,
    token: str | None,
    code: str = "InvalidParameterValue",
) -> tuple[list[Item], str | None]:
    """Returns a page of items, which are sorted by their keys, and the token of the next page.

    `size`: the most items, None for all. The token stays valid when its item is deleted: it has a
    key, not a number.
    """
    rest = list(items)
    if token:
        after = read_token(call, token, code)
        rest = [item for item in rest if key(item) > after]
    if size is None or len(rest) <= size:
        return rest, None
    return rest[:size], make_token(call, key(rest[size - 1]))


def cut_request_page(
    request: ApiRequest, items: Sequence[Item], key: Callable[[Item], str], size: int | None
) -> tuple[list[Item], str | None]:
    """Returns the page that begins at the NextToken of a request, and the token of the next, as
    `cut_page` does. `size`: the most items, None for all."""
    return cut_page(request.operation, items, key, size, request.params.get("NextToken"))


def cut_table_page(
    request: ApiRequest, table: CachedTable[Row], size: int | None, is_visible: Callable[[Row], bool] | None = None
) -> tuple[list[Row], str | None]:
    """Returns a page of the rows for which `is_visible` is true, as `cut_request_page` does, but
    reads no further than the page. `size`: the most rows, None for all."""
    call, token = request.operation, request.params.get("NextToken")
    names = table.list_after(read_token(call, token)) if token else table.order
    rows = (table.rows[name] for name in names)
    visible = rows if is_visible is None else filter(is_visible, rows)
    if size is None:
        return list(visible), None
    first_rows = list(islice(visible, size + 1))
    return first_rows[:size], make_token(call, first_rows[size - 1]["id"]) if len(first_rows) > size else None


def read_size(params: Members, least: int, most: int, *, zero_is_all: bool = False) -> int | None:
    """Returns the size of a page by MaxResults, at most `most` items; None for all. `zero_is_all`:
    this call treats 0 as no number. Raises AwsError for fewer than `least`."""
    given_size = params.get("MaxResults")
    if given_size is None or (given_size == 0 and zero_is_all):
        return None
    if given_size < least:
        raise AwsError(
            "InvalidParameterValue",
            f"Value ( {given_size} ) for parameter maxResults is invalid. Expecting a value greater than {least}.",
        )
    return min(given_size, most)


def read_size_unless_named(
    request: ApiRequest,
    names: Sequence[str] | None,
    parameter: str,
    bounds: tuple[int, int],
    *,
    zero_is_all: bool = False,
) -> int | None:
    """Returns the size of a page as `read_size` does. `bounds`: the least and the most items.
    Raises AwsError where a request names its items (`names`) and gives a size or token of a page
    too."""
    given_size = read_size(request.params, *bounds, zero_is_all=zero_is_all)
    if names and (given_size is not None or request.params.get("NextToken")):
        rule = f"The parameter {parameter} cannot be used with the parameter maxResults"
        raise AwsError("InvalidParameterCombination", rule)
    return given_size
