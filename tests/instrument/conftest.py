"""A server that many tests share, and the example of the protocol page."""

import re
from pathlib import Path

import pytest

from tests.instrument.serving import served

PAGE = Path(__file__).parents[2] / "docs" / "instrument.md"


@pytest.fixture(scope="module")
def toy_server(tmp_path_factory):
    """The toy LC circuit on a bench of eight bits, in a process of its own."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with served("lc-toy", "--profile", "bench-8bit", "--message-s", "1", "--second", "queue", log=log) as server:
        yield server
    assert "Traceback" not in log.read_text()


@pytest.fixture
def transcript():
    """The command, and what is said and heard, None where nothing is."""
    text = PAGE.read_text(encoding="utf-8")
    command = re.search(r"^rhel-hw serve .*$", text, re.MULTILINE).group()
    lines = re.search(r"<!-- run by tests/instrument -->\n```\n(.*?)```", text, re.DOTALL).group(1).splitlines()
    exchanges = []
    for line in lines:
        if line.startswith("> "):
            exchanges.append((line[2:], None))
        else:
            exchanges[-1] = (exchanges[-1][0], line)
    assert len(exchanges) > 5
    return command, exchanges
