"""Serves STS: the identity of the caller."""

from __future__ import annotations

from headrace.api.handling import ApiRequest, Members, serves


@serves("sts", "GetCallerIdentity")
def get_caller_identity(request: ApiRequest) -> Members:
    """Returns account, name and id of the caller. Needs no permission, as on AWS."""
    caller = request.caller
    user_id = caller.account if caller.user == "root" else caller.access_key
    return {"UserId": user_id, "Account": caller.account, "Arn": caller.arn}
