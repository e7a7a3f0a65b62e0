"""Which names of repositories and files may become paths."""

import pytest

from policies.filenames import file_fault, repo_fault


@pytest.mark.parametrize(
    "repo", ["1bit-MONSTER/Qwen3.8-27B-UD-Q4_K_XL-MTP", "a/b", "A_b/c.d", "_/x", "o/v1.0-beta_2"]
)
def test_repositories_of_the_hub_pass(repo: str) -> None:
    assert repo_fault(repo) is None


@pytest.mark.parametrize(
    ("repo", "says"),
    [
        ("", "ORGANISATION/NAME"),
        ("gpt2", "ORGANISATION/NAME"),  # its files would lie among those of an organisation gpt2
        ("a/b/c", "ORGANISATION/NAME"),
        ("/etc/passwd", "ORGANISATION/NAME"),
        ("../b", "ORGANISATION/NAME"),
        ("a/..", "ORGANISATION/NAME"),
        ("a/.hidden", "ORGANISATION/NAME"),
        ("a\\b/c", "ORGANISATION/NAME"),
        ("a/b\0", "ORGANISATION/NAME"),
        ("a/b\n", "ORGANISATION/NAME"),
        ("a/b%2e", "ORGANISATION/NAME"),
        ("a/b?x", "ORGANISATION/NAME"),
        ("a/b@main", "ORGANISATION/NAME"),
        ("a/ä", "ORGANISATION/NAME"),
        ("a/b..c", "neither '..'"),
        ("a--b/c", "nor '--'"),
        ("a/b.", "may end with '.'"),
        ("a/NUL", "reserved name 'NUL'"),
        ("con.x/b", "reserved name 'con.x'"),
        (f"a/{'x' * 97}", "96 characters"),
    ],
)
def test_a_repository_that_must_not_become_a_path_is_refused(repo: str, says: str) -> None:
    assert says in (repo_fault(repo) or "")


@pytest.mark.parametrize(
    "file",
    ["m.gguf", "MTP/mtp-Qwen3.8-27B-Q4_0.gguf", "a b.gguf", "ü.gguf", "x" * 200, "console.gguf"],
)
def test_files_of_the_hub_pass(file: str) -> None:
    assert file_fault(file) is None


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("/etc/passwd", "between its names"),
        ("a\\b", "between its names"),
        ("\\\\host\\share", "between its names"),
        ("", "''"),
        ("a//b", "''"),
        ("a/", "''"),
        (".", "'.'"),
        ("..", "'..'"),
        ("a/../../b", "'..'"),
        ("a/./b", "'.'"),
        (".m.gguf.json", "begins with '.'"),
        ("a/.git/config", "begins with '.'"),
        ("C:m.gguf", "':'"),
        ("m.gguf:stream", "':'"),
        ("m.gguf.", "ends with '.'"),
        ("m.gguf ", "a space"),
        ("a\0.gguf", "NUL"),
        ("a\n.gguf", "control characters"),
        ("a\x7f", "control characters"),
        ("\ud800", "control characters"),
        ("nul", "reserved"),
        ("a/Com1.gguf", "reserved"),
        ("x" * 201, "200 bytes"),
        ("ü" * 101, "200 bytes"),
        ("a/" * 600 + "b", "1024 bytes"),
    ],
)
def test_a_file_that_must_not_become_a_path_is_refused(file: str, says: str) -> None:
    assert says in (file_fault(file) or "")
