"""A bucket behind the S3 API as a target: AWS's, or any compatible server.

    s3://BUCKET[/PREFIX][?region=REGION][&endpoint=https://HOST:PORT]

A file is sent as a multipart upload: a single part is in memory, and the file appears with the last
call. Every part is sent with its SHA-256. The last call refuses to overwrite (If-None-Match; before
it the name is checked, for servers that ignore the header). Keys come from where the AWS tools read
them: environment, profile, role of the instance; a target's text has no keys.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.aws.client import AwsAnswer, AwsClient, CallLimits, make_client, translate_errors
from headrace.base.units import MIB
from headrace.errors import CouldNotRun, HeadraceError, InputError, Refusals
from headrace.servers.backup.targets.target import (
    FORM,
    MISSING,
    WRITE_BYTES,
    BackupTarget,
    StoredFile,
    TargetWriter,
    check_name,
    refuse,
)

refuse_s3 = Refusals("Amazon S3 user guide")
# Bucket naming rules there; a prefix of ours is as plain as our names.
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
PREFIX = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*", re.ASCII)
REGION = re.compile(r"[a-z0-9-]{2,30}", re.ASCII)
# Multipart upload limits there: at most 5 GiB a part, and 10,000 parts.
MOST_PART, MOST_PARTS = 5 << 30, 10_000
# A guess: parts of 16 MiB take little memory and few requests; with 9,000 of them there is room for
# a copy that gets larger than was expected.
PART_BYTES, PLANNED_PARTS = 16 * MIB, 9_000
# Seconds for a connection and for an answer, and tries; botocore waits longer each time.
ATTEMPTS = 5
LIMITS = CallLimits(connect_s=10, answer_s=60, tries=ATTEMPTS, mode="standard")
WRONG_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
LATER = ("SlowDown", "ServiceUnavailable", "503", "InternalError", "500", "RequestTimeout", "Throttling")
NOBODY = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
GONE = ("NoSuchKey", "404", "NotFound")
TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class S3Target(BackupTarget):
    """A bucket, or a prefix in one."""

    def __init__(self, rest: str) -> None:
        """Takes the text behind s3://, with bucket, prefix, region and endpoint. Raises
        InputError."""
        bucket, prefix, region, endpoint = _parse_place(rest)
        self.bucket, self.prefix = bucket, f"{prefix}/" if prefix else ""
        self.label = f"s3://{bucket}" + (f"/{prefix}" if prefix else "")
        self._client = _make_client(region, endpoint)

    def list(self, prefix: str = "") -> list[StoredFile]:
        """Lists its files whose name begins with `prefix`, by name, from all pages. Raises
        InputError, CouldNotRun."""
        stored = []
        with self._translate_errors(prefix):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
                for entry in page.get("Contents", ()):
                    stored.append(StoredFile(entry["Key"].removeprefix(self.prefix), int(entry["Size"])))
        return sorted(stored, key=lambda file: file.name)

    def create(self, name: str, expected_bytes: int = 0) -> TargetWriter:
        """Begins a new file in parts of 16 MiB, or larger ones if `expected_bytes` takes too many
        of them. Raises InputError if the name exists, CouldNotRun."""
        if self.exists(check_name(name)):
            raise self.make_taken_error(name)
        fit = math.ceil(expected_bytes / PLANNED_PARTS / MIB) * MIB  # so that 10,000 parts are enough
        return _S3Writer(self, name, min(MOST_PART, max(PART_BYTES, fit)))

    def exists(self, name: str) -> bool:
        """Returns whether a file of this name is stored. Raises InputError, CouldNotRun."""
        try:
            with self._translate_errors(name):
                self._client.head_object(Bucket=self.bucket, Key=self.prefix + check_name(name))
        except InputError as error:
            if error.kind == MISSING:
                return False
            raise
        return True

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """Yields the bytes of a file from byte `offset` on; after a lost connection it goes on at
        the next byte, and gives up after ATTEMPTS tries without one. Raises InputError,
        CouldNotRun."""
        at, tries = offset, 0
        size = self._read_size(name)
        while at < size:
            before = at
            try:
                with self._translate_errors(name):
                    where = {"Bucket": self.bucket, "Key": self.prefix + check_name(name)}
                    answer = self._client.get_object(**where, Range=f"bytes={at}-")
                    for piece in answer["Body"].iter_chunks(WRITE_BYTES):
                        at += len(piece)
                        yield piece
            except CouldNotRun:
                # botocore does not request a body again that was cut off.
                tries = tries + 1 if at == before else 1
                if tries >= ATTEMPTS:
                    raise
                time.sleep(0.1 * 2**tries)
                continue
            if at == before:
                raise refuse_s3.run(f"{self.label}/{name}", f"ends at {at:,} of {size:,} bytes", "Try again.")

    def _read_size(self, name: str) -> int:
        """Returns the bytes of a stored file. Raises InputError if it is missing, CouldNotRun."""
        with self._translate_errors(name):
            answer = self._client.head_object(Bucket=self.bucket, Key=self.prefix + check_name(name))
            return int(answer["ContentLength"])

    def replace(self, name: str, content: bytes) -> None:
        """Writes a document, over an older one of the name. Raises InputError, CouldNotRun."""
        with self._translate_errors(name):
            self._client.put_object(
                Bucket=self.bucket,
                Key=self.prefix + check_name(name),
                Body=content,
                ChecksumSHA256=_compute_sha256(content),
            )

    def remove(self, name: str) -> None:
        """Removes a file if it exists. Raises InputError, CouldNotRun."""
        with self._translate_errors(name):
            self._client.delete_object(Bucket=self.bucket, Key=self.prefix + check_name(name))

    def sweep(self, prefix: str, older_s: float) -> int:
        """Ends multipart uploads that began longer than `older_s` seconds ago, whose parts would be
        billed otherwise, and returns their number. Some servers (s3rver) cannot list them: there a
        rule of the bucket's life cycle has to end them."""
        ended = 0
        with self._translate_errors(prefix):
            pages = self._client.get_paginator("list_multipart_uploads")
            try:
                answers = pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix)
                uploads = [upload for answer in answers for upload in answer.get("Uploads") or ()]
            except self._client.exceptions.ClientError as error:
                if error.response.get("Error", {}).get("Code") != "NotImplemented":
                    raise
                return 0
            for upload in uploads:
                begun = upload.get("Initiated")
                if begun is None or time.time() - begun.timestamp() >= older_s:
                    where = {"Bucket": self.bucket, "Key": upload["Key"]}
                    self._client.abort_multipart_upload(**where, UploadId=upload["UploadId"])
                    ended += 1
        return ended

    def _translate_errors(self, name: str) -> AbstractContextManager[None]:
        """Returns a context that turns errors of boto3 into Headrace's, with the file's name."""
        return translate_errors(
            lambda code, text, answer: self._translate_refusal(name, code, text[:200], answer),
            lambda error: self._translate_failure(name, error),
        )

    def _translate_refusal(self, name: str, code: str, text: str, answer: AwsAnswer) -> HeadraceError:
        """Returns Headrace's error for a refusal, by S3's error code. `text`: the server's message;
        `answer`: the whole answer, which may name the bucket's region."""
        value, source = f"{self.label}/{name}" if name else self.label, f"S3 error {code}"
        if code in WRONG_REGION:
            headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            region = answer.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region")
            hint = f"Add ?region={region}." if region else "Add ?region= with the bucket's region."
            return InputError(self.label, "is in another region than the one asked", source, hint)
        if code in TAKEN:
            return self.make_taken_error(name)
        if code in GONE:
            return self.make_missing_error(name)
        if code == "NoSuchBucket":
            return InputError(self.label, "there is no such bucket", source, "Make it: aws s3 mb.")
        if code in NOBODY:
            hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            return InputError(self.label, f"does not know the keys: {text}", source, hint)
        if code in ("AccessDenied", "403"):
            hint = "A backup needs s3:GetObject, PutObject, DeleteObject, ListBucket, AbortMultipartUpload, ListBucketMultipartUploads."
            return InputError(value, f"refuses these keys: {text}", source, hint)
        if code in LATER:
            rule = f"does not take requests now, after {ATTEMPTS} tries: {text}"
            return CouldNotRun(value, rule, source, "Try again later. A backup that was begun does not count.")
        return CouldNotRun(value, f"refused it: {text}", source, "See the bucket's policy and the server's log.")

    def _translate_failure(self, name: str, error: Exception) -> HeadraceError:
        """Returns Headrace's error for a call without an answer, or without credentials."""
        kind = type(error).__name__
        if kind in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "CredentialRetrievalError"):
            hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            return refuse_s3.input(self.label, f"there are no keys for it: {error}", hint)
        value = f"{self.label}/{name}" if name else self.label
        text = " ".join(str(error).split())[:200]
        return refuse_s3.run(value, f"cannot be reached: {text}", "Is the network up, and the endpoint right?")


def _parse_place(rest: str) -> tuple[str, str, str | None, str | None]:
    """Returns bucket, prefix ("" for none), region and endpoint of a target. Raises InputError."""
    place, _, query = rest.partition("?")
    bucket, _, prefix = place.partition("/")
    prefix = unquote(prefix).strip("/")
    if not BUCKET.fullmatch(bucket):
        raise refuse_s3.input(f"s3://{bucket[:70]}", "is not the name of a bucket", f"A target is {FORM}.")
    if prefix and (not PREFIX.fullmatch(prefix) or len(prefix) > 200):
        rule = "a prefix has letters, digits, . _ - between slashes"
        raise refuse.input(f"s3://{bucket}/{prefix[:70]!r}", rule, "For example s3://backups/shop.")
    values = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := set(values) - {"region", "endpoint"}:
        rule = "is not known: region and endpoint are"
        raise refuse.input(f"?{sorted(unknown)[0][:40]}=", rule, "Keys come as for the AWS tools, not in the text.")
    region, endpoint = values.get("region"), values.get("endpoint")
    if region is not None and not REGION.fullmatch(region):
        raise refuse_s3.input(f"?region={region[:40]}", "is not the name of a region", "Such as eu-west-1.")
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise refuse.input(f"?endpoint={endpoint[:80]}", "is https://HOST[:PORT]")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            rule = "would send the data in clear over a network"
            raise refuse.input(f"?endpoint={endpoint[:80]}", rule, "Use https://.")
    return bucket, prefix, region, endpoint


def _make_client(region: str | None, endpoint: str | None) -> AwsClient:
    """Returns a client of S3. `region` None: the user's configured one, else us-east-1; `endpoint`
    None: AWS's own. Raises InputError."""
    try:
        return make_client(
            "s3",
            LIMITS,
            region=region,
            else_region="us-east-1",
            endpoint=endpoint,
            needs_keys=False,
            s3={"addressing_style": "path"} if endpoint else {},
            # The checksums are sent in headers: servers other than AWS do not support trailers.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
    except InputError as error:
        raise refuse_s3.input(f"s3 {endpoint or ''}", f"cannot be set up: {error.rule}") from None


def _compute_sha256(data: bytes) -> str:
    """Returns the SHA-256 of bytes in Base64, as S3 takes it."""
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


class _S3Writer(TargetWriter):
    """Sends a file in parts, each from memory. A file that fits into one part is sent by a PUT."""

    def __init__(self, target: S3Target, name: str, part_bytes: int) -> None:
        """Begins a file whose parts have `part_bytes`; nothing is sent before the first is full."""
        super().__init__()
        self.target, self.name, self.part_bytes = target, name, part_bytes
        self._where = {"Bucket": target.bucket, "Key": target.prefix + name}
        self._waiting = bytearray()
        self._upload: str | None = None
        self._sent: list[AwsAnswer] = []

    def _write(self, data: bytes) -> None:
        """Appends bytes, and sends every part that is full."""
        self._waiting += data
        while len(self._waiting) >= self.part_bytes:
            self._send(bytes(self._waiting[: self.part_bytes]))
            del self._waiting[: self.part_bytes]

    def _send(self, data: bytes) -> None:
        """Sends the next part; the first one begins the multipart upload. Raises CouldNotRun for
        more than MOST_PARTS parts and for a part that arrived altered, and the target's errors."""
        client, number = self.target._client, len(self._sent) + 1
        with self.target._translate_errors(self.name):
            if self._upload is None:
                begun = client.create_multipart_upload(**self._where, ChecksumAlgorithm="SHA256")
                self._upload = begun["UploadId"]
            if number > MOST_PARTS:
                rule = f"has grown beyond {MOST_PARTS:,} parts of {self.part_bytes >> 20} MiB"
                raise refuse_s3.run(self.name, rule, "Take the backup again: its size is known now.")
            checksum = _compute_sha256(data)
            part = {"UploadId": self._upload, "PartNumber": number, "ChecksumSHA256": checksum}
            answer = client.upload_part(**self._where, **part, Body=data)
        self._check(answer, data, checksum, number)
        sent = {"PartNumber": number, "ETag": answer["ETag"]}
        self._sent.append(sent | ({"ChecksumSHA256": checksum} if answer.get("ChecksumSHA256") else {}))

    def _check(self, answer: AwsAnswer, data: bytes, checksum: str, number: int) -> None:
        """Raises CouldNotRun if the server has other bytes than `data`, by the SHA-256 of its
        answer (sent: `checksum`), else by the MD5 in its ETag. `number`: of the part."""
        server_checksum, etag = answer.get("ChecksumSHA256"), str(answer.get("ETag", "")).strip('"')
        plain = "ServerSideEncryption" not in answer or answer["ServerSideEncryption"] == "AES256"
        wrong = server_checksum is not None and server_checksum != checksum
        if server_checksum is None and plain and re.fullmatch(r"[0-9a-f]{32}", etag):
            wrong = hashlib.md5(data, usedforsecurity=False).hexdigest() != etag
        if wrong:
            rule = f"part {number} arrived with another checksum than it was sent with"
            raise refuse_s3.run(f"{self.target.label}/{self.name}", rule, "Is something between altering it?")

    def close(self) -> None:
        """Sends the rest, completes the file, and compares its size in bytes. Raises CouldNotRun,
        and InputError if the name exists; then the upload is ended."""
        client = self.target._client
        try:
            if self._upload is None:
                data = bytes(self._waiting)
                checksum = _compute_sha256(data)
                with self._answer_may_be_lost():
                    with self.target._translate_errors(self.name):
                        answer = client.put_object(**self._where, Body=data, ChecksumSHA256=checksum, IfNoneMatch="*")
                    self._check(answer, data, checksum, 1)
            else:
                if self._waiting:
                    self._send(bytes(self._waiting))
                with self._answer_may_be_lost(), self.target._translate_errors(self.name):
                    client.complete_multipart_upload(
                        **self._where, UploadId=self._upload, MultipartUpload={"Parts": self._sent}, IfNoneMatch="*"
                    )
                self._upload = None
            if self.target._read_size(self.name) != self.size:
                rule = f"has another size than the {self.size:,} bytes that were sent"
                raise refuse_s3.run(f"{self.target.label}/{self.name}", rule, "Try again.")
        except BaseException:
            self.abort()
            raise

    @contextmanager
    def _answer_may_be_lost(self) -> Iterator[None]:
        """Ignores an error if the object is stored all the same: the answer was lost, and the
        client tried again and met its own object."""
        try:
            yield
        except HeadraceError:
            if not self._is_stored():
                raise

    def _is_stored(self) -> bool:
        """Reads the object back; returns whether it has the bytes that were written."""
        digest = hashlib.sha256()
        try:
            for piece in self.target.read(self.name):
                digest.update(piece)
        except HeadraceError:
            return False
        return digest.hexdigest() == self.sha256

    def abort(self) -> None:
        """Ends the multipart upload if one was begun; errors are ignored, because `sweep` repeats
        it."""
        upload, self._upload = self._upload, None
        self._waiting.clear()
        if upload is not None:
            try:
                with self.target._translate_errors(self.name):
                    self.target._client.abort_multipart_upload(**self._where, UploadId=upload)
            except HeadraceError:
                return  # `sweep` ends it later
