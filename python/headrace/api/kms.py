"""Serves KMS: keys, aliases, grants, and encryption under keys.

Every decision, and all key material, is the daemon's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime

from headrace.api import paging
from headrace.api.declared import collect_arguments, convert_answer
from headrace.api.errors import AwsError
from headrace.api.handling import ApiRequest, Members, serves
from headrace.lab.calls import Key

# The default and the most of a page (KMS API: ListKeys, ListAliases, ListGrants).
PAGE, MOST_ON_PAGE = 100, 1000
# Bytes of a data key, by its KeySpec (KMS API, GenerateDataKey).
KEY_SPECS = {"AES_256": 32, "AES_128": 16}
ALGORITHM = "SYMMETRIC_DEFAULT"
# KMS's policy of a key that was made without one: the account may do everything.
POLICY_NAME = "default"
NOT_USED = "keys of the lab are symmetric and of one region"


def _convert_key(request: ApiRequest, key: Key) -> Members:
    """Returns the facts of a key as KMS describes them."""
    return convert_answer(
        "key",
        key,
        AWSAccountId=request.account,
        Enabled=key["state"] == "Enabled",
        Origin="EXTERNAL_KEY_STORE" if key["elsewhere"] else "AWS_KMS",
        KeyManager="AWS" if key["managed"] else "CUSTOMER",
        EncryptionAlgorithms=[ALGORITHM],
    )


def _build_page(request: ApiRequest, items: Sequence[Members], key: str, name: str) -> Members:
    """Returns a page of items ordered by the member `key`, under `name`, with the marker of the
    next page. Raises AwsError for a limit out of bounds."""
    size = request.params.get("Limit") or PAGE
    if not 1 <= size <= MOST_ON_PAGE:
        raise AwsError("ValidationException", f"Limit must be between 1 and {MOST_ON_PAGE}.")
    ordered = sorted(items, key=lambda item: item[key])
    page, after = paging.cut_page(
        request.operation, ordered, lambda item: item[key], size, request.params.get("Marker"), "InvalidMarkerException"
    )
    return {name: page, "NextMarker": after, "Truncated": after is not None}


def _check_algorithm(request: ApiRequest, *names: str) -> None:
    """Raises AwsError where a parameter of these names asks for another algorithm than that of
    symmetric keys."""
    for name in names:
        given = request.params.get(name) or ALGORITHM
        if given != ALGORITHM:
            raise AwsError("InvalidKeyUsageException", f"{name} {given} is not that of a symmetric key.")


@serves("kms", "CreateKey")
def create_key(request: ApiRequest) -> Members:
    """Makes a symmetric key."""
    params = request.params
    only_values = {
        "KeyUsage": "ENCRYPT_DECRYPT",
        "CustomerMasterKeySpec": ALGORITHM,
        "KeySpec": ALGORITHM,
        "Origin": "AWS_KMS",
    }
    for name, only in only_values.items():
        if (params.get(name) or only) != only:
            raise AwsError("UnsupportedOperationException", f"{name} {params[name]} is not supported: {NOT_USED}.")
    return {"KeyMetadata": _convert_key(request, request.change("key.create", **collect_arguments(request)))}


@serves("kms", "DescribeKey")
def describe_key(request: ApiRequest) -> Members:
    """Describes a key."""
    return {"KeyMetadata": _convert_key(request, request.lab.describe_key(request.params["KeyId"]))}


@serves("kms", "ListKeys")
def list_keys(request: ApiRequest) -> Members:
    """Lists all keys, by id. All are the account's own."""
    keys = [{"KeyId": key["id"], "KeyArn": key["arn"]} for key in request.lab.keys()["keys"]]
    return _build_page(request, keys, "KeyId", "Keys")


@serves("kms", "ScheduleKeyDeletion")
def schedule_key_deletion(request: ApiRequest) -> Members:
    """Deletes a key after some days of lab time."""
    days = request.params.get("PendingWindowInDays")
    key = request.change("key.schedule_deletion", **collect_arguments(request))
    answer = {"KeyId": key["arn"], "DeletionDate": datetime.fromisoformat(key["deletion_at"]), "KeyState": key["state"]}
    # KMS's own default is 30 days.
    return {**answer, "PendingWindowInDays": 30 if days is None else days}


@serves("kms", "ListResourceTags")
def list_resource_tags(request: ApiRequest) -> Members:
    """Lists the tags of a key, by name."""
    tags = request.lab.describe_key(request.params["KeyId"])["tags"]
    return _build_page(request, [{"TagKey": name, "TagValue": value} for name, value in tags.items()], "TagKey", "Tags")


@serves("kms", "ListAliases")
def list_aliases(request: ApiRequest) -> Members:
    """Lists all aliases, or those of a key, by name."""
    named = request.params.get("KeyId")
    only = request.lab.describe_key(named)["id"] if named else None
    aliases = [
        convert_answer("alias", alias) for alias in request.lab.keys()["aliases"] if only in (None, alias["key"])
    ]
    return _build_page(request, aliases, "AliasName", "Aliases")


@serves("kms", "GetKeyPolicy")
def get_key_policy(request: ApiRequest) -> Members:
    """Returns the policy document of a key."""
    if (request.params.get("PolicyName") or POLICY_NAME) != POLICY_NAME:
        raise AwsError("NotFoundException", "No such policy exists.")
    policy = request.lab.describe_key(request.params["KeyId"])["policy"]
    return {"Policy": policy or _build_default_policy(request), "PolicyName": POLICY_NAME}


def _build_default_policy(request: ApiRequest) -> str:
    """Returns KMS's own policy of a new key as JSON: the account may do everything."""
    statement = {
        "Sid": "Enable IAM User Permissions",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{request.account}:root"},
        "Action": "kms:*",
        "Resource": "*",
    }
    return json.dumps({"Version": "2012-10-17", "Id": "key-default-1", "Statement": [statement]})


@serves("kms", "ListKeyPolicies")
def list_key_policies(request: ApiRequest) -> Members:
    """Lists the names of a key's policies: there is one."""
    request.lab.describe_key(request.params["KeyId"])
    page = _build_page(request, [{"name": POLICY_NAME}], "name", "PolicyNames")
    return page | {"PolicyNames": [policy["name"] for policy in page["PolicyNames"]]}


@serves("kms", "GetKeyRotationStatus")
def get_key_rotation_status(request: ApiRequest) -> Members:
    """Tells whether a key is rotated: keys of the lab are not."""
    return {"KeyRotationEnabled": False, "KeyId": request.lab.describe_key(request.params["KeyId"])["arn"]}


@serves("kms", "CreateGrant")
def create_grant(request: ApiRequest) -> Members:
    """Records who may use a key."""
    params = request.params
    if not params.get("GranteePrincipal"):
        raise AwsError("ValidationException", "GranteePrincipal is required.")
    grant = request.change("key.grant", **collect_arguments(request))
    return {"GrantId": grant["id"], "GrantToken": base64.b64encode(grant["id"].encode()).decode("ascii")}


@serves("kms", "ListGrants")
def list_grants(request: ApiRequest) -> Members:
    """Lists the grants of a key, by id."""
    params, key = request.params, request.lab.describe_key(request.params["KeyId"])
    grants = [
        convert_answer("grant", grant, KeyId=key["arn"], IssuingAccount=f"arn:aws:iam::{request.account}:root")
        for grant in key["grants"]
        if params.get("GrantId") in (None, grant["id"]) and params.get("GranteePrincipal") in (None, grant["grantee"])
    ]
    return _build_page(request, grants, "GrantId", "Grants")


@serves("kms", "RetireGrant")
def retire_grant(request: ApiRequest) -> Members:
    """Ends a grant, named by its token or by key and id."""
    params = request.params
    token, key, grant = params.get("GrantToken"), params.get("KeyId"), params.get("GrantId")
    if token:
        try:
            grant = base64.b64decode(token, validate=True).decode("ascii")
        except ValueError:
            raise AwsError("InvalidGrantTokenException", "The grant token is not valid.") from None
        holders = (
            holder for holder in request.lab.keys()["keys"] if any(grant == each["id"] for each in holder["grants"])
        )
        key = next((holder["id"] for holder in holders), None)
        if key is None:
            raise AwsError("InvalidGrantTokenException", "The grant token is not valid.")
    if not key or not grant:
        raise AwsError("ValidationException", "GrantToken, or KeyId and GrantId, are required.")
    request.change("key.end_grant", key=key, grant=grant)
    return {}


@serves("kms", "Encrypt")
def encrypt(request: ApiRequest) -> Members:
    """Encrypts up to 4 KiB."""
    _check_algorithm(request, "EncryptionAlgorithm")
    return convert_answer("encrypted", request.change("key.encrypt", **collect_arguments(request)))


@serves("kms", "Decrypt")
def decrypt(request: ApiRequest) -> Members:
    """Decrypts a ciphertext."""
    _check_algorithm(request, "EncryptionAlgorithm")
    if not request.params.get("CiphertextBlob"):
        raise AwsError("ValidationException", "CiphertextBlob is required.")
    return convert_answer("decrypted", request.change("key.decrypt", **collect_arguments(request)))


@serves("kms", "ReEncrypt")
def re_encrypt(request: ApiRequest) -> Members:
    """Decrypts a ciphertext, and encrypts it under another key or context."""
    _check_algorithm(request, "SourceEncryptionAlgorithm", "DestinationEncryptionAlgorithm")
    if not request.params.get("CiphertextBlob"):
        raise AwsError("ValidationException", "CiphertextBlob is required.")
    return convert_answer("encrypted again", request.change("key.re_encrypt", **collect_arguments(request)))


def _make_data_key(request: ApiRequest, plaintext: bool) -> Members:
    """Makes a data key of the size (bytes) or spec asked for; `plaintext`: returns it in the clear
    too. Raises AwsError for both or neither."""
    params = request.params
    spec, size = params.get("KeySpec"), params.get("NumberOfBytes")
    if (spec is None) == (size is None):
        raise AwsError("ValidationException", "Please specify either number of bytes or key spec.")
    if spec is not None:
        size = KEY_SPECS.get(spec)
        if size is None:
            raise AwsError("ValidationException", f"KeySpec {spec} is not AES_256 or AES_128.")
    return request.change(
        "key.generate_data_key",
        key=params["KeyId"],
        bytes=size,
        context=params.get("EncryptionContext"),
        plaintext=plaintext,
    )


@serves("kms", "GenerateDataKey")
def generate_data_key(request: ApiRequest) -> Members:
    """Generates a data key, and returns it in the clear and wrapped."""
    return convert_answer("data key", _make_data_key(request, True))


@serves("kms", "GenerateDataKeyWithoutPlaintext")
def generate_data_key_without_plaintext(request: ApiRequest) -> Members:
    """Generates a data key, and returns it wrapped alone."""
    return convert_answer("wrapped data key", _make_data_key(request, False))
