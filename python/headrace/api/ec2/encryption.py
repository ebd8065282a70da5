"""Serves encryption by default, and the key of new encrypted volumes."""

from __future__ import annotations

from headrace.api.handling import ApiRequest, Members, serves


@serves("ec2", "GetEbsEncryptionByDefault", handled="DryRun")
def get_ebs_encryption_by_default(request: ApiRequest) -> Members:
    """Tells whether new volumes are encrypted by default."""
    on = request.lab.encryption_defaults()["by_default"]
    return {"EbsEncryptionByDefault": on, "SseType": "sse-kms" if on else "none"}


@serves("ec2", "EnableEbsEncryptionByDefault", handled="DryRun")
def enable_ebs_encryption_by_default(request: ApiRequest) -> Members:
    """Turns encryption by default on."""
    return {"EbsEncryptionByDefault": request.change("encryption.set", by_default=True)["by_default"]}


@serves("ec2", "DisableEbsEncryptionByDefault", handled="DryRun")
def disable_ebs_encryption_by_default(request: ApiRequest) -> Members:
    """Turns encryption by default off."""
    return {"EbsEncryptionByDefault": request.change("encryption.set", by_default=False)["by_default"]}


@serves("ec2", "GetEbsDefaultKmsKeyId", handled="DryRun")
def get_ebs_default_kms_key_id(request: ApiRequest) -> Members:
    """Returns the default key of new encrypted volumes."""
    return {"KmsKeyId": request.lab.encryption_defaults()["key"]}


@serves("ec2", "ModifyEbsDefaultKmsKeyId", handled="KmsKeyId DryRun")
def modify_ebs_default_kms_key_id(request: ApiRequest) -> Members:
    """Sets the default key of new encrypted volumes."""
    return {"KmsKeyId": request.change("encryption.set", key=request.params["KmsKeyId"])["key"]}


@serves("ec2", "ResetEbsDefaultKmsKeyId", handled="DryRun")
def reset_ebs_default_kms_key_id(request: ApiRequest) -> Members:
    """Sets the default key of new encrypted volumes back to EBS's own key."""
    return {"KmsKeyId": request.change("encryption.set", key="")["key"]}
