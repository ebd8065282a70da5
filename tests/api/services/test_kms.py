"""KMS by boto3 on one lab: every call with every parameter that it handles, and the errors as KMS
words them. Effects of keys on volumes and snapshots are in tests/lab/test_encryption.py.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from aws_labs import AwsLab
from botocore.exceptions import ClientError
from lab_folders import Labs

MISSING = "00000000-0000-0000-0000-000000000000"
SYMMETRIC = "SYMMETRIC_DEFAULT"
# KMS API, Encrypt: the longest plaintext under a symmetric key, in bytes.
LONGEST = 4096


@pytest.fixture(scope="module")
def lab():
    labs = Labs()
    try:
        yield AwsLab(labs)
    finally:
        labs.close()


@pytest.fixture(scope="module")
def kms(lab):
    return lab.client("kms")


def refused(call, code: str, text: str = "", **params: Any) -> None:
    """Calls, and expects to be refused with this code."""
    with pytest.raises(ClientError) as raised:
        call(**params)
    error = raised.value.response["Error"]
    assert error["Code"] == code and text in error["Message"], error
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] < 500


def key(kms, **params: Any) -> str:
    return kms.create_key(**params)["KeyMetadata"]["KeyId"]


def by_pages(call, items: str, of, **params: Any) -> list[Any]:
    """Every item, one on a page, by Marker."""
    result: list[Any] = []
    answer = call(Limit=1, **params)
    while True:
        assert len(answer[items]) <= 1
        result += map(of, answer[items])
        if not answer["Truncated"]:
            return result
        answer = call(Limit=1, Marker=answer["NextMarker"], **params)


def test_a_key_is_made_as_it_was_asked_for(kms):
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    request = {
        "KeySpec": SYMMETRIC,
        "KeyUsage": "ENCRYPT_DECRYPT",
        "Origin": "AWS_KMS",
        "Description": 'of <db> & "log"',
    }
    tags = [{"TagKey": "owner", "TagValue": "ann"}, {"TagKey": "empty", "TagValue": ""}]
    key_metadata = kms.create_key(**request, CustomerMasterKeySpec=SYMMETRIC, Policy=policy, Tags=tags)["KeyMetadata"]
    assert (
        {name: key_metadata[name] for name in request} == request
        and key_metadata["Enabled"]
        and key_metadata["KeyState"] == "Enabled"
    )
    assert key_metadata == kms.describe_key(KeyId=key_metadata["Arn"])["KeyMetadata"]
    assert kms.get_key_policy(KeyId=key_metadata["KeyId"], PolicyName="default")["Policy"] == policy
    own = json.loads(kms.get_key_policy(KeyId=key(kms))["Policy"])
    assert own["Statement"][0]["Principal"]["AWS"] == "arn:aws:iam::000000000000:root"
    assert kms.list_key_policies(KeyId=key_metadata["KeyId"], Limit=1)["PolicyNames"] == ["default"]
    assert not kms.get_key_rotation_status(KeyId=key_metadata["KeyId"])["KeyRotationEnabled"]
    kms.update_key_description(KeyId=key_metadata["KeyId"], Description="another")
    assert kms.describe_key(KeyId=key_metadata["KeyId"])["KeyMetadata"]["Description"] == "another"
    kms.tag_resource(KeyId=key_metadata["KeyId"], Tags=[{"TagKey": "owner", "TagValue": "bob"}])
    kms.untag_resource(KeyId=key_metadata["KeyId"], TagKeys=["empty"])
    kms.tag_resource(KeyId=key_metadata["KeyId"], Tags=[{"TagKey": "zone", "TagValue": "a"}])
    rest = by_pages(
        kms.list_resource_tags, "Tags", lambda tag: (tag["TagKey"], tag["TagValue"]), KeyId=key_metadata["KeyId"]
    )
    assert rest == [("owner", "bob"), ("zone", "a")]


def test_keys_that_are_not_served_are_refused(kms):
    refused(kms.create_key, "UnsupportedOperationException", "KeySpec RSA_2048", KeySpec="RSA_2048")
    refused(kms.create_key, "UnsupportedOperationException", "Origin", Origin="EXTERNAL")
    refused(kms.create_key, "UnsupportedOperationException", "KeyUsage", KeyUsage="SIGN_VERIFY")
    refused(kms.create_key, "UnsupportedOperationException", CustomerMasterKeySpec="RSA_2048")
    refused(kms.create_key, "ValidationException", "MultiRegion", MultiRegion=True)
    refused(kms.create_key, "MalformedPolicyDocumentException", Policy="no JSON")
    refused(kms.describe_key, "NotFoundException", MISSING, KeyId=MISSING)
    refused(kms.get_key_policy, "NotFoundException", KeyId=key(kms), PolicyName="other")
    refused(kms.list_keys, "InvalidMarkerException", Marker="not one of ours")
    refused(kms.list_key_policies, "InvalidMarkerException", KeyId=key(kms), Marker="not one of ours")


def test_keys_are_listed_by_pages(kms):
    keys = {key(kms) for _ in range(3)}
    listed = by_pages(kms.list_keys, "Keys", lambda key: key["KeyId"])
    assert keys <= set(listed) and listed == sorted(set(listed))


def test_aliases_lead_to_keys(kms):
    first, second = key(kms), key(kms)
    for name in ("alias/one", "alias/two"):
        kms.create_alias(AliasName=name, TargetKeyId=first)
    result = by_pages(
        kms.list_aliases,
        "Aliases",
        lambda target_key: (target_key["AliasName"], target_key["TargetKeyId"]),
        KeyId=first,
    )
    assert result == [("alias/one", first), ("alias/two", first)]
    assert kms.describe_key(KeyId="alias/one")["KeyMetadata"]["KeyId"] == first
    kms.update_alias(AliasName="alias/one", TargetKeyId=second)
    assert kms.describe_key(KeyId="alias/one")["KeyMetadata"]["KeyId"] == second
    refused(kms.create_alias, "AlreadyExistsException", AliasName="alias/one", TargetKeyId=first)
    refused(kms.create_alias, "NotFoundException", AliasName="alias/three", TargetKeyId=MISSING)
    refused(kms.update_alias, "NotFoundException", AliasName="alias/three", TargetKeyId=first)
    kms.delete_alias(AliasName="alias/one")
    refused(kms.delete_alias, "NotFoundException", AliasName="alias/one")
    refused(kms.describe_key, "NotFoundException", KeyId="alias/one")


def test_what_is_encrypted_is_decrypted_again(kms):
    """Random texts, keys and contexts: only the same context and key give the text back."""
    chance = random.Random(13)
    keys = [key(kms) for _ in range(2)]
    for _ in range(20):
        text = chance.randbytes(chance.choice((1, 32, chance.randrange(1, LONGEST), LONGEST)))
        context = {f"k{n}": chance.choice("ab") for n in range(chance.randrange(3))}
        owner, other = chance.sample(keys, 2)
        sealed = kms.encrypt(KeyId=owner, Plaintext=text, EncryptionContext=context, EncryptionAlgorithm=SYMMETRIC)
        blob = sealed["CiphertextBlob"]
        assert text not in blob or len(text) < 4
        opened = kms.decrypt(CiphertextBlob=blob, EncryptionContext=context, EncryptionAlgorithm=SYMMETRIC)
        assert opened["Plaintext"] == text and opened["KeyId"].endswith(owner)
        wrong = context | {"more": "x"}
        refused(kms.decrypt, "InvalidCiphertextException", CiphertextBlob=blob, EncryptionContext=wrong)
        refused(kms.decrypt, "IncorrectKeyException", CiphertextBlob=blob, EncryptionContext=context, KeyId=other)
        at = chance.randrange(len(blob))
        broken = blob[:at] + bytes([blob[at] ^ 1 << chance.randrange(8)]) + blob[at + 1 :]
        with pytest.raises(ClientError) as raised:
            kms.decrypt(CiphertextBlob=broken, EncryptionContext=context)
        # A broken byte may be one of the key's id, which then names no key.
        assert raised.value.response["Error"]["Code"] in ("InvalidCiphertextException", "NotFoundException")
        moved = kms.re_encrypt(
            CiphertextBlob=blob,
            SourceKeyId=owner,
            SourceEncryptionContext=context,
            SourceEncryptionAlgorithm=SYMMETRIC,
            DestinationKeyId=other,
            DestinationEncryptionContext=wrong,
            DestinationEncryptionAlgorithm=SYMMETRIC,
        )
        assert moved["SourceKeyId"].endswith(owner) and moved["KeyId"].endswith(other)
        again = kms.decrypt(CiphertextBlob=moved["CiphertextBlob"], EncryptionContext=wrong, KeyId=other)
        assert again["Plaintext"] == text
    refused(kms.encrypt, "ValidationException", KeyId=keys[0], Plaintext=b"x" * (LONGEST + 1))
    refused(
        kms.encrypt, "InvalidKeyUsageException", KeyId=keys[0], Plaintext=b"x", EncryptionAlgorithm="RSAES_OAEP_SHA_256"
    )
    refused(kms.decrypt, "ValidationException", KeyId=keys[0])


def test_data_keys(kms):
    wrapping, context = key(kms), {"aws:ebs:id": "vol-0123456789abcdef0"}
    for expected, size in (({"KeySpec": "AES_256"}, 32), ({"KeySpec": "AES_128"}, 16), ({"NumberOfBytes": 1024}, 1024)):
        data_key = kms.generate_data_key(KeyId=wrapping, EncryptionContext=context, **expected)
        assert len(data_key["Plaintext"]) == size
        opened = kms.decrypt(CiphertextBlob=data_key["CiphertextBlob"], EncryptionContext=context)
        assert opened["Plaintext"] == data_key["Plaintext"]
        blind = kms.generate_data_key_without_plaintext(KeyId=wrapping, EncryptionContext=context, **expected)
        assert "Plaintext" not in blind
        assert len(kms.decrypt(CiphertextBlob=blind["CiphertextBlob"], EncryptionContext=context)["Plaintext"]) == size
    entry = {"KeyId": wrapping, "KeySpec": "AES_256"}
    assert kms.generate_data_key(**entry)["Plaintext"] != kms.generate_data_key(**entry)["Plaintext"]
    refused(kms.generate_data_key, "ValidationException", KeyId=wrapping, KeySpec="AES_256", NumberOfBytes=32)
    refused(kms.generate_data_key_without_plaintext, "ValidationException", KeyId=wrapping)
    refused(kms.generate_data_key, "NotFoundException", KeyId=MISSING, KeySpec="AES_256")


def test_a_key_that_is_off_or_about_to_go_encrypts_nothing(kms):
    name = key(kms)
    blob = kms.encrypt(KeyId=name, Plaintext=b"x")["CiphertextBlob"]
    kms.disable_key(KeyId=name)
    refused(kms.encrypt, "DisabledException", KeyId=name, Plaintext=b"x")
    refused(kms.decrypt, "DisabledException", CiphertextBlob=blob)
    kms.enable_key(KeyId=name)
    gone = kms.schedule_key_deletion(KeyId=name, PendingWindowInDays=7)
    assert gone["KeyState"] == "PendingDeletion" and gone["PendingWindowInDays"] == 7
    refused(kms.encrypt, "KMSInvalidStateException", KeyId=name, Plaintext=b"x")
    refused(kms.enable_key, "KMSInvalidStateException", KeyId=name)
    refused(kms.disable_key, "KMSInvalidStateException", KeyId=name)
    refused(kms.schedule_key_deletion, "KMSInvalidStateException", KeyId=name)
    kms.cancel_key_deletion(KeyId=name)
    assert kms.describe_key(KeyId=name)["KeyMetadata"]["KeyState"] == "Disabled"
    refused(kms.cancel_key_deletion, "KMSInvalidStateException", KeyId=name)
    kms.enable_key(KeyId=name)
    assert kms.decrypt(CiphertextBlob=blob)["Plaintext"] == b"x"
    refused(kms.schedule_key_deletion, "ValidationException", KeyId=name, PendingWindowInDays=6)
    refused(kms.disable_key, "NotFoundException", KeyId=MISSING)


def test_grants(kms):
    name = key(kms)
    ann, bob = ("arn:aws:iam::000000000000:user/ann", "arn:aws:iam::000000000000:user/bob")
    request = {
        "KeyId": name,
        "Operations": ["Decrypt", "Encrypt"],
        "Constraints": {"EncryptionContextSubset": {"a": "b"}},
    }
    result = [
        kms.create_grant(**request, GranteePrincipal=ann, RetiringPrincipal=bob, Name="first"),
        kms.create_grant(**request, GranteePrincipal=bob),
        kms.create_grant(**request, GranteePrincipal=bob),
    ]
    assert by_pages(kms.list_grants, "Grants", lambda grant: grant["GrantId"], KeyId=name) == sorted(
        grant["GrantId"] for grant in result
    )
    (details,) = kms.list_grants(KeyId=name, GranteePrincipal=ann)["Grants"]
    assert details["RetiringPrincipal"] == bob and details["Name"] == "first"
    assert details["Operations"] == request["Operations"] and details["Constraints"] == request["Constraints"]
    assert [grant["GrantId"] for grant in kms.list_grants(KeyId=name, GrantId=result[1]["GrantId"])["Grants"]] == [
        result[1]["GrantId"]
    ]
    kms.retire_grant(GrantToken=result[0]["GrantToken"])
    kms.retire_grant(KeyId=kms.describe_key(KeyId=name)["KeyMetadata"]["Arn"], GrantId=result[1]["GrantId"])
    kms.revoke_grant(KeyId=name, GrantId=result[2]["GrantId"])
    assert kms.list_grants(KeyId=name)["Grants"] == []
    refused(kms.revoke_grant, "NotFoundException", KeyId=name, GrantId=result[2]["GrantId"])
    refused(kms.retire_grant, "InvalidGrantTokenException", GrantToken="bm90aGluZw==")
    refused(kms.retire_grant, "ValidationException", KeyId=name)
    refused(kms.create_grant, "ValidationException", "GranteePrincipal", KeyId=name, Operations=["Decrypt"])


def test_dry_runs_change_nothing(kms):
    """DryRun: KMS says DryRunOperationException after its checks."""
    name = key(kms)
    blob = kms.encrypt(KeyId=name, Plaintext=b"x")["CiphertextBlob"]
    grant = kms.create_grant(KeyId=name, GranteePrincipal="arn:aws:iam::000000000000:user/ann", Operations=["Decrypt"])
    text = "DryRunOperationException"
    refused(kms.encrypt, text, KeyId=name, Plaintext=b"x", DryRun=True)
    refused(kms.decrypt, text, CiphertextBlob=blob, DryRun=True)
    refused(kms.re_encrypt, text, CiphertextBlob=blob, DestinationKeyId=name, DryRun=True)
    refused(kms.generate_data_key, text, KeyId=name, KeySpec="AES_256", DryRun=True)
    refused(kms.generate_data_key_without_plaintext, text, KeyId=name, KeySpec="AES_256", DryRun=True)
    refused(kms.create_grant, text, KeyId=name, GranteePrincipal="a", Operations=["Decrypt"], DryRun=True)
    refused(kms.revoke_grant, text, KeyId=name, GrantId=grant["GrantId"], DryRun=True)
    refused(kms.retire_grant, text, GrantToken=grant["GrantToken"], DryRun=True)
    assert [grant["GrantId"] for grant in kms.list_grants(KeyId=name)["Grants"]] == [grant["GrantId"]]
    refused(kms.encrypt, "NotFoundException", KeyId=MISSING, Plaintext=b"x", DryRun=True)


def test_mistakes_have_kmss_codes(kms):
    """Each call refuses mistakes that no other test is about."""
    name, rsa = key(kms), "RSAES_OAEP_SHA_256"
    blob = kms.encrypt(KeyId=name, Plaintext=b"x")["CiphertextBlob"]
    refused(kms.list_keys, "ValidationException", Limit=1001)
    refused(kms.list_aliases, "ValidationException", Limit=1001)
    refused(kms.list_key_policies, "ValidationException", KeyId=name, Limit=1001)
    refused(kms.list_resource_tags, "ValidationException", KeyId=name, Limit=1001)
    refused(kms.list_grants, "ValidationException", KeyId=name, Limit=1001)
    refused(kms.decrypt, "InvalidKeyUsageException", CiphertextBlob=blob, EncryptionAlgorithm=rsa)
    refused(kms.re_encrypt, "InvalidKeyUsageException", CiphertextBlob=blob, DestinationKeyId=name, SourceEncryptionAlgorithm=rsa)  # fmt: skip
    refused(kms.re_encrypt, "ValidationException", DestinationKeyId=name)
    refused(kms.update_key_description, "NotFoundException", KeyId=MISSING, Description="x")
    refused(kms.tag_resource, "NotFoundException", KeyId=MISSING, Tags=[{"TagKey": "a", "TagValue": "b"}])
    refused(kms.untag_resource, "NotFoundException", KeyId=MISSING, TagKeys=["a"])
    refused(kms.get_key_rotation_status, "NotFoundException", KeyId=MISSING)
