"""Option files and diffs that `headrace advise` writes: read back, applied with patch, without
secrets."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.advice import advise, parse_server
from headrace.errors import InputError
from headrace.mysql.option_files import format_value, list_server_groups, read_option_file, split_line

ASKED = {"storage": "gp3:500:6000", "memory_gib": 16, "vcpus": 8}
needs_patch = pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not here")


def active(result) -> dict[str, str]:
    return {item.parameter: item.value for item in result.settings if item.active}


@pytest.mark.parametrize(
    ("flavor", "version", "engine"),
    [
        ("mysql", "5.7.30", "innodb"),
        ("mysql", "8.4", "innodb"),
        ("mariadb", "10.11.19", "innodb"),
        ("mariadb", "10.11.19", "myrocks"),
        ("percona", "8.0.36", "myrocks"),
    ],
)
@pytest.mark.parametrize(
    "more",
    [{}, {"durability": "relaxed", "replica": True, "log_storage": "gp3:50", "log_dir": "/srv/log"}],
    ids=["plain", "all"],
)
def test_the_option_file_says_what_was_advised_and_nothing_else(tmp_path, flavor, version, engine, more):
    advice = advise(**ASKED, **more, flavor=flavor, version=version, engine=engine)
    path = tmp_path / "made.cnf"
    path.write_text(advice.to_cnf())
    values = read_option_file(path, list_server_groups(flavor, parse_server(flavor, version).version)).values
    loaded = values.pop("plugin_load_add", None)
    assert values == active(advice)
    assert (loaded == "ha_rocksdb") == (flavor == "mariadb" and engine == "myrocks")
    # The advice for a server with the advised file asks for nothing else.
    again = advise(**ASKED, **more, engine=engine, config=path, flavor=flavor, version=version)
    assert not [item.parameter for item in again.settings if item.differs and item.active]
    if not more:
        assert again.agrees


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30))
def test_values_survive_the_option_file(value):

    # Spaces beyond the ASCII ones are no spaces to the servers either.
    assert split_line(f"x = {format_value(value)}") == ("x", value)


SETTINGS = [
    "innodb-buffer-pool-size = 2G", "innodb_buffer_pool_size=2G # more?", "sync_binlog = 0", "skip-innodb-doublewrite", "innodb_flush_neighbors=1", "query_cache_type=0",
    "innodb_log_file_size=1G", "innodb_file_format = Barracuda", "loose-tx_isolation=SERIALIZABLE", "innodb_flush_log_at_trx_commit=0", "log-error=/var/log/m.err", "# a comment", "",
    "user = mysql", "max_connections=500", "innodb_io_capacity=20000", "table_open_cache_instances = 1", "password_history = 1", "foo_bar = 1", "ssl_key=/etc/key.pem", "master_info_repository=FILE",
]  # fmt: skip
SECRETS = ["password = geheim", "ssl_key = geheim", "wsrep_sst_auth = root:geheim", 'loose-plugin_secret = "geheim"']


@st.composite
def option_file(draw) -> str:
    lines = draw(st.lists(st.sampled_from(["[client]", "[mysqldump]"]), max_size=1)) + draw(
        st.lists(st.sampled_from(SECRETS), max_size=1)
    )
    lines = lines if lines and lines[0].startswith("[") else ["[client]", *lines]
    for _ in range(draw(st.integers(0, 2))):
        lines += [
            draw(st.sampled_from(["[mysqld]", "[mysqld] # server", "[mysqldump]", "[MYSQLD]"])),
            *draw(st.lists(st.sampled_from(SETTINGS + SECRETS), max_size=8)),
        ]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@needs_patch
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    main=option_file(),
    included=option_file(),
    include=st.booleans(),
    version=st.sampled_from(["5.7.44", "8.0.36", "8.4.3", "9.7.4"]),
)
def test_a_patched_file_agrees_and_keeps_everything_else(tmp_path, main, included, include, version):
    folder = tmp_path / "files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files = {folder / "my.cnf": main + ("\n!include extra.cnf\n" if include else ""), folder / "extra.cnf": included}
    for path, text in files.items():
        path.write_text(text)
    request = ASKED | {"config": folder / "my.cnf", "flavor": "mysql", "version": version}
    diff = advise(**request).to_diff()
    assert "geheim" not in diff
    if diff:
        done = subprocess.run(["patch", "-p0", "--quiet"], input=diff, text=True, capture_output=True, cwd="/")
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{diff}"
    after = advise(**request)
    assert after.agrees, [finding.text for finding in after.findings]
    assert after.to_diff() == ""
    retained = {"log-error=/var/log/m.err", "max_connections=500", "user = mysql", "# a comment", *SECRETS}
    for path, text in files.items():
        assert [line for line in path.read_text().split("\n") if line in retained] == [
            line for line in text.split("\n") if line in retained
        ]


def test_a_missing_section_is_made(tmp_path):
    path = tmp_path / "my.cnf"
    path.write_text("[client]\nport=3307\n")
    diff = advise(**ASKED, config=path, flavor="mysql", version="8.4").to_diff()
    assert "+[mysqld]" in diff and "+innodb_buffer_pool_size = " in diff


def test_a_redo_log_keeps_its_size_when_its_names_change(tmp_path):
    """Files of 2 x 2 GiB say what a capacity of 4 GiB would: the diff must not take the one without
    giving the other."""
    path = tmp_path / "my.cnf"
    path.write_text("[mysqld]\ninnodb_log_file_size=2G\n")
    advice = advise(**ASKED, config=path, flavor="mysql", version="8.4")
    redo = next(item for item in advice.settings if item.parameter == "innodb_redo_log_capacity")
    assert (redo.value, redo.current, redo.differs) == ("4G", "4G", False)
    assert "+innodb_redo_log_capacity = 4G" in advice.to_diff()


def test_a_diff_needs_a_file():
    with pytest.raises(InputError, match="option file"):
        advise(**ASKED, flavor="mysql", version="8.4").to_diff()


def test_findings_name_file_and_line(tmp_path):
    path = tmp_path / "my.cnf"
    path.write_text(
        "[mysqld]\nquery_cache_size=1M\nloose_query_cache_type=1\ninnodb_log_files_in_group=3\nsync_binlog=100\n"
    )
    texts = {
        finding.parameter: finding.text
        for finding in advise(**ASKED, config=path, flavor="mysql", version="8.0.36").findings
    }
    assert "does not start" in texts["query_cache_size"] and f"{path}, line 2" in texts["query_cache_size"]
    assert "query_cache_type" not in texts, "loose: its writer knows that the server may not know it"
    assert "still takes it" in texts["innodb_log_files_in_group"], "no innodb_redo_log_capacity: three files count"
    assert "100 commit groups" in texts["sync_binlog"]


def test_relative_paths_of_the_guide_are_free_of_this_machine(tmp_path):
    """No value or reason names a path nobody gave."""
    text = advise(**ASKED, flavor="mysql", version="8.4").to_cnf()
    assert str(Path.home()) not in text and str(tmp_path) not in text
