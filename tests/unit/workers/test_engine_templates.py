"""Command templates: what a site sets over what is shipped, and what comes of the words."""

from scheduler.settings import ENGINES, EngineConf
from workers.upstream.templates import SHIPPED, command_of, engines


def test_a_site_changes_one_field_and_keeps_the_rest() -> None:
    merged = engines(
        {"1bit": EngineConf(start_s=9.0), "mine": EngineConf(url="http://127.0.0.1:1")}
    )
    assert merged["1bit"].start_s == 9.0
    assert merged["1bit"].command == SHIPPED["1bit"].command
    assert merged["mine"].url == "http://127.0.0.1:1"
    assert merged.keys() == {*SHIPPED, "mine"}


def test_a_value_with_spaces_and_braces_stays_one_argument() -> None:
    values = {"path": "/a b/{port}.gguf", "ctx": "9"}
    words = command_of("serve -m {path} '--x={ctx} {no}' --port {port}", values)
    assert words == ["serve", "-m", "/a b/{port}.gguf", "--x=9 {no}", "--port", "{port}"]


def test_the_settings_know_the_shipped_engines() -> None:
    assert {*ENGINES} == {*SHIPPED, "llama", "llama-cpp-python", "null"} - {"url"}


def test_the_shipped_commands_name_all_they_need() -> None:
    for name, conf in SHIPPED.items():
        if conf.command:
            assert "{port}" in conf.command, name
            assert "127.0.0.1" in conf.command, name
            assert ("{path}" in conf.command) != ("{tag}" in conf.command), name
            assert all("{file}" in flags for flags in conf.roles.values()), name
