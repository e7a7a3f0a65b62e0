"""Engines as children: started, probed, shared, cancelled, lost and ended, all of them real processes."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from policies.row import ExtraFile
from scheduler.settings import EngineConf
from support.box import lives
from support.engines import FAKE, bench, fake, model_file, row
from support.wait import at_best, until
from workers.job import End, Error, Stage

SLOW = ("--tokens", 400, "--token-ms", 20)


def servers() -> list[psutil.Process]:
    """Return the living fakes of this process and what they started, beside other tests' boxes."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "workers.fake_server" in child.cmdline():
                found += [child, *child.children(recursive=True)]
    return [one for one in found if lives(one)]


def test_the_first_job_starts_the_server_and_the_next_finds_it(tmp_path: Path) -> None:
    with bench(tmp_path, row(), fake=fake()) as engines:
        first, second = engines.run(), engines.run(stream=False)
        assert first.stages == ["load", "prefill"]
        assert second.stages == ["prefill"]
        assert first.text == "all is well that ends well and so on"
        assert isinstance(first.end, End)
        assert isinstance(second.end, End)
        assert first.end.load_s is not None
        assert first.pieces[0].load_s == first.end.load_s
        assert second.end.load_s is None
        assert engines.engines.resident() == ["m"]
        assert len(servers()) == 1
    assert servers() == []


def test_those_who_come_while_it_starts_share_one_start(tmp_path: Path) -> None:
    with bench(tmp_path, row(slots=3), fake=fake("slow-start", "--seconds", 1)) as engines:
        leases = [engines.begin(talk=str(n)) for n in range(3)]
        ends = [engines.rest(lease).end for lease in leases]
        assert all(isinstance(end, End) for end in ends)
        assert sum(isinstance(end, End) and end.load_s is not None for end in ends) == 1
        assert len(servers()) == 1


def test_one_who_leaves_does_not_end_a_start_that_another_waits_for(tmp_path: Path) -> None:
    with bench(tmp_path, row(slots=2), fake=fake("slow-start", "--seconds", 1)) as engines:
        leaver, waiter = engines.begin(), engines.begin(talk="d")
        assert engines.next(leaver) == Stage(leaver, "load")
        engines.engines.cancel(leaver)
        gone = engines.rest(leaver)
        assert gone.end == End(leaver, cancelled=True)
        assert isinstance(engines.rest(waiter).end, End)


def test_a_start_that_nobody_waits_for_any_more_is_ended(tmp_path: Path) -> None:
    with bench(tmp_path, row(), fake=fake("never-ready")) as engines:

        def cancel_s() -> float:
            lease = engines.begin()
            until(lambda: len(servers()) == 1, "the server")
            took_s = engines.cancel(lease)
            until(lambda: servers() == [], "the end of all servers")
            return took_s

        at_best(cancel_s, 1.0, "seconds to give up a start")


@pytest.mark.parametrize(
    ("play", "words"),
    [
        ("exits", "ended with status 3; it said: [fake] loading"),
        ("never-ready", "was not ready within 5 s; it said: [fake] listening on"),
        ("mute", "was not ready within 5 s"),
    ],
)
def test_a_server_that_does_not_get_ready_says_why_and_leaves_nothing(
    play: str, words: str, tmp_path: Path
) -> None:
    with bench(
        tmp_path, row(), fake=fake(play, start_s=20.0 if play == "exits" else 5.0)
    ) as engines:
        error = engines.run().end
        assert isinstance(error, Error)
        assert (error.status, error.code) == (503, "model_not_usable")
        assert error.facts["cause"] == "load_failed"
        assert words in error.message
        assert servers() == []
        assert engines.engines.resident() == []


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = EngineConf(command="no-such-engine --port {port} {path}")
    with bench(tmp_path, row(), fake=missing) as engines:
        error = engines.run().end
        assert isinstance(error, Error)
        assert "cannot start no-such-engine: No such file or directory" in error.message


def test_a_port_that_was_taken_meanwhile_is_tried_again(tmp_path: Path) -> None:
    taken = tmp_path / "taken.py"
    taken.write_text(
        "import socket, subprocess, sys, pathlib\n"
        "seen = pathlib.Path(sys.argv[2])\n"
        "if not seen.exists():\n"
        "    seen.write_text(sys.argv[1])\n"
        "    held = subprocess.Popen([sys.executable, '-c', 'import socket, sys, time\\n'\n"
        "        's = socket.socket(); s.bind((\"127.0.0.1\", int(sys.argv[1]))); s.listen()\\n'\n"
        "        'print(flush=True); time.sleep(30)', sys.argv[1]], stdout=subprocess.PIPE,\n"
        "        start_new_session=True)\n"
        "    held.stdout.readline()\n"
        "    seen.with_suffix('.pid').write_text(str(held.pid))\n"
        "sys.argv = ['fake', '--port', sys.argv[1]]\n"
        "from workers.fake_server.__main__ import main\n"
        "sys.exit(main())\n"
    )
    seen = tmp_path / "seen"
    conf = EngineConf(command=f"{sys.executable} {taken} {{port}} {seen}", start_s=20.0)
    try:
        with bench(tmp_path / "run", row(), fake=conf) as engines:
            assert isinstance(engines.run().end, End)
            assert seen.exists()
    finally:
        os.kill(int(seen.with_suffix(".pid").read_text()), signal.SIGKILL)


def test_another_server_on_our_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Somebody else answers there that all is well, and our own never listens."""
    squatter, pid = tmp_path / "squatter.py", tmp_path / "pid"
    squatter.write_text(
        "import pathlib, subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-m', 'workers.fake_server', '--port', sys.argv[1]],\n"
        "    start_new_session=True)\n"
        "pathlib.Path(sys.argv[2]).write_text(str(other.pid))\n"
        "time.sleep(60)\n"
    )
    conf = EngineConf(command=f"{sys.executable} {squatter} {{port}} {pid}", start_s=4.0)
    try:
        with bench(tmp_path / "run", row(), fake=conf) as engines:
            error = engines.run().end
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert isinstance(error, Error)
    assert "was not ready" in error.message


@pytest.mark.parametrize("play", ["dies", "dies-early"])
def test_a_crash_is_one_error_and_the_row_can_be_loaded_again(play: str, tmp_path: Path) -> None:
    once = tmp_path / "once"
    with bench(tmp_path, row(slots=2), fake=fake(play, "--once", once, "--after", 1)) as engines:
        engines.run()
        broke = engines.run()
        error = broke.end
        assert isinstance(error, Error)
        assert (error.status, error.code) == (502, "engine_crashed")
        assert "ended with status 3" in error.message
        assert "GGML_ASSERT" in error.message
        assert engines.engines.resident() == []
        again = engines.run()
        assert again.stages == ["load", "prefill"]
        assert again.text == "all is well that ends well and so on"


def test_a_killed_server_fails_its_jobs_at_once(tmp_path: Path) -> None:
    with bench(tmp_path, row(slots=2), fake=fake("well", *SLOW)) as engines:

        def told_s() -> float:
            leases = [engines.begin(talk=talk) for talk in "cd"]
            for lease in leases:
                engines.until_piece(lease)
            killed_at = time.monotonic()
            servers()[0].kill()
            broke = [engines.rest(lease) for lease in leases]
            for one in broke:
                assert isinstance(one.end, Error)
                assert "SIGKILL" in one.end.message
            return max(one.ended_at for one in broke) - killed_at

        at_best(told_s, 0.5, "seconds until both jobs of a killed server had ended")


@pytest.mark.parametrize("more", [SLOW, ("--prompt-token-ms", 4000)], ids=["decode", "prefill"])
def test_a_cancelled_job_ends_when_its_server_is_idle_which_lives_on(
    more: tuple[object, ...], tmp_path: Path
) -> None:
    with bench(tmp_path, row(), fake=fake("well", *more)) as engines:

        def cancel_s() -> float:
            lease = engines.begin()
            while engines.next(lease) != Stage(lease, "prefill"):
                pass
            time.sleep(0.3)
            before = servers()
            took_s = engines.cancel(lease)
            assert servers() == before
            return took_s

        at_best(cancel_s, 0.25, "seconds until a cancelled job had ended")


def test_a_server_that_works_on_is_ended_with_its_group_after_the_grace(tmp_path: Path) -> None:
    play = fake("ignores-cancel", *SLOW, "--seconds", 30, cancel_grace_s=1.0)
    with bench(tmp_path, row(), fake=play) as engines:

        def ended_s() -> float:
            lease = engines.begin()
            engines.until_piece(lease)  # the second time it is started anew
            took_s = engines.cancel(lease)
            assert took_s >= 1.0
            assert servers() == []
            assert engines.engines.resident() == []
            return took_s

        ended_s()
        at_best(ended_s, 1.6, "seconds until a server that works on was ended")


def test_the_work_of_others_on_a_stubborn_server_is_not_cut_off(tmp_path: Path) -> None:
    play = fake("ignores-cancel", "--tokens", 60, "--token-ms", 50, "--seconds", 30)
    with bench(tmp_path, row(slots=2), fake=play) as engines:
        stays = engines.begin(talk="stays")
        engines.until_piece(stays)
        leaves = engines.begin(talk="leaves")
        engines.until_piece(leaves)
        engines.engines.cancel(leaves)
        ended = engines.rest(stays)
        assert isinstance(ended.end, End)
        assert not ended.end.cancelled
        assert engines.rest(leaves).end == End(leaves, cancelled=True)
        assert servers() == []


@pytest.mark.parametrize("play", ["hangs", "hangs-early"])
def test_a_server_that_hangs_is_given_up(play: str, tmp_path: Path) -> None:
    with bench(tmp_path, row(), fake=fake(play, stall_s=1.0)) as engines:
        hung = engines.run()
        assert isinstance(hung.end, Error)
        assert "has not said or done anything for 1 s" in hung.end.message
        assert servers() == []


def test_a_long_prefill_is_no_hang(tmp_path: Path) -> None:
    """The slots of the server show that it goes on, as those of a llama-server do."""
    prompt = [{"role": "user", "content": "word " * 60}]
    slow = fake("well", "--prompt-token-ms", 50, stall_s=1.5)
    with bench(tmp_path, row(), fake=slow) as engines:
        end = engines.run(messages=prompt).end
        assert isinstance(end, End)
        assert end.ttft_s is not None
        assert end.ttft_s > 2.5


def test_several_rows_are_several_servers_and_what_is_evicted_is_gone_first(tmp_path: Path) -> None:
    rows = [row("a"), row("b"), row("c")]
    with bench(tmp_path, *rows, fake=fake()) as engines:
        engines.run("a")
        engines.run("b")
        assert sorted(engines.engines.resident()) == ["a", "b"]
        assert len(servers()) == 2
        answered = engines.run("c", evict=("a", "b"))
        assert isinstance(answered.end, End)
        assert engines.engines.resident() == ["c"]
        assert len(servers()) == 1
        engines.unload("c")
        assert servers() == []
        engines.unload("c")


@pytest.mark.parametrize("play", ["stubborn", "leaves-child"])
def test_a_server_ends_with_all_that_it_started(play: str, tmp_path: Path) -> None:
    with bench(tmp_path, row(), fake=fake(play)) as engines:

        def unload_s() -> float:
            engines.run()
            assert len(servers()) == (2 if play == "leaves-child" else 1)
            began_at = time.monotonic()
            engines.unload("m")
            took_s = time.monotonic() - began_at
            until(lambda: servers() == [], "the end of all servers")
            return took_s

        at_best(unload_s, 2.0, "seconds to unload")


def test_what_a_server_left_behind_when_it_crashed_is_ended(tmp_path: Path) -> None:
    with bench(tmp_path, row(), fake=fake("leaves-child")) as engines:
        engines.run()
        parent = next(one for one in servers() if one.children())
        (left,) = parent.children()
        parent.kill()
        until(lambda: not lives(left), "the end of what it had started")
        until(lambda: engines.engines.resident() == [], "the row to be gone")


def test_two_conversations_keep_their_slots_and_their_prompts(tmp_path: Path) -> None:
    with bench(tmp_path, row(slots=2, ctx=16384), fake=fake()) as engines:
        talks = {talk: [{"role": "user", "content": f"{talk} " * 4000}] for talk in ("one", "two")}
        shares = []
        for turn in range(4):
            for talk, turns in talks.items():
                answered = engines.run(talk=talk, messages=turns)
                end = answered.end
                assert isinstance(end, End)
                if turn:
                    shares.append(end.cached_tokens / end.prompt_tokens)
                turns += [
                    {"role": "assistant", "content": answered.text},
                    {"role": "user", "content": "go on"},
                ]
        assert min(shares) > 0.99


def test_flags_come_of_roles_types_slots_and_threads(tmp_path: Path) -> None:
    argv = tmp_path / "argv"
    file = model_file(tmp_path)
    extra = tmp_path / "mtp" / "head.gguf"
    extra.parent.mkdir()
    extra.touch()
    script = tmp_path / "note.py"
    script.write_text(
        "import os, sys, pathlib\n"
        f"pathlib.Path({str(argv)!r}).write_text('\\n'.join([*sys.argv[1:], str(os.nice(0))]))\n"
    )
    conf = EngineConf(
        command=f"{sys.executable} {script} -m {{path}} -c {{ctx_all}} -t {{threads}} -p {{port}}",
        parallel="-np {slots}",
        roles={"mtp": "--mtp {file}"},
        nice=3,
    )
    with_head = row(path=str(file), slots=2, extra_files=(ExtraFile("mtp/head.gguf", "mtp"),))
    with bench(tmp_path / "run", with_head, fake=conf, threads=5) as engines:
        engines.run()
    words = argv.read_text().split("\n")
    assert words[:6] == ["-m", str(file), "-c", "8192", "-t", "5"]
    assert words[8:-1] == ["-np", "2", "--mtp", str(extra)]
    assert int(words[-1]) == os.nice(0) + 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"extra_files": (ExtraFile("m.gguf", "draft"),)}, "cannot use its draft file m.gguf"),
        ({"type": "embedding"}, "serves no embedding model"),
        ({"path": "/no/such/file"}, "there is no file /no/such/file"),
        ({"path": None, "tag": "qwen3:0.6b"}, "takes a file, and the row has a tag"),
        ({"engine": "vllm"}, "no engine is called vllm; known are 1bit, fake, flm"),
    ],
)
def test_what_an_engine_cannot_use_is_said(
    given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with bench(tmp_path, row(**given), fake=fake()) as engines:
        error = engines.run().end
        assert isinstance(error, Error)
        assert error.code == "model_not_usable"
        assert words in error.message


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        ("print('qwen3:0.6b, llama3.2:1b')", ""),
        ("print('qwen3:0.6b-long')", "the tag qwen3:0.6b is not installed"),
        ("import sys; sys.exit('no NPU')", "ended with status 1: no NPU"),
    ],
)
def test_a_tag_is_started_only_if_it_is_installed(listing: str, words: str, tmp_path: Path) -> None:
    script = tmp_path / "list.py"
    script.write_text(listing)
    conf = fake(tags=f"{sys.executable} {script}")
    conf = EngineConf(
        **{n: getattr(conf, n) for n in conf.__struct_fields__ if n != "command"},
        command=FAKE.replace("{path}", "{tag}") + f" --count {tmp_path / 'asked.jsonl'}",
    )
    tagged = row(path=None, tag="qwen3:0.6b")
    with bench(tmp_path / "run", tagged, fake=conf) as engines:
        end = engines.run().end
        assert isinstance(end, Error if words else End)
        assert words in getattr(end, "message", "")
        if words:
            assert engines.engines.sizes() == {}
            return
        # by any other name a server may pull another model
        assert asked_for(tmp_path / "asked.jsonl") == ["qwen3:0.6b"]
        assert (
            engines.engines.sizes()["m"] > 1024 * 1024
        )  # so that it may be unloaded when it idles
        engines.unload("m")
        assert (servers(), engines.engines.sizes()) == ([], {})


def asked_for(heard: Path) -> list[str]:
    """Return the models that a server was asked for."""
    told = [json.loads(line)["body"] for line in heard.read_text().splitlines()]
    return [json.loads(body)["model"] for body in told]


def test_a_file_with_another_template_than_the_rows_is_not_started(tmp_path: Path) -> None:
    with bench(tmp_path, row(template_sha256="0" * 64), fake=fake()) as engines:
        error = engines.run().end
        assert isinstance(error, Error)
        assert error.facts["cause"] == "template_mismatch"
        assert servers() == []


def test_a_talkative_server_is_listened_to(tmp_path: Path) -> None:
    """Its output never fills a pipe, and only some of it goes to the log."""
    with bench(tmp_path, row(), fake=fake("chatty")) as engines:
        assert isinstance(engines.run().end, End)
        time.sleep(0.5)
        assert isinstance(engines.run().end, End)


def test_jobs_that_come_and_go_leave_no_thread(tmp_path: Path) -> None:
    with bench(tmp_path, row(slots=4), fake=fake()) as engines:
        engines.run()
        before = threading.active_count()
        for _ in range(5):
            leases = [engines.begin(talk=str(n)) for n in range(4)]
            engines.engines.cancel(leases[0])
            for lease in leases:
                engines.rest(lease)
        until(lambda: threading.active_count() <= before, "the end of the threads")


def test_a_further_file_with_another_template_than_its_entrys_is_not_started(
    tmp_path: Path,
) -> None:
    draft = tmp_path / "draft.gguf"
    shutil.copyfile(model_file(tmp_path), draft)
    extra = ExtraFile("draft.gguf", "draft", template_sha256="0" * 64)
    with_draft = row(path=str(tmp_path / "m.gguf"), extra_files=(extra,))
    with bench(tmp_path / "run", with_draft, fake=fake(roles={"draft": "-md {file}"})) as engines:
        error = engines.run().end
        assert isinstance(error, Error)
        assert error.facts["cause"] == "template_mismatch"
        assert "draft.gguf: its chat template has digest" in error.message
        assert servers() == []
