"""Servers for tests: a bench that is there at once, and the command as people start it."""

import asyncio
import json
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from devices import ArgumentError
from rhel_hw.bench import Channel, Description, Kind, Limits, Record, Shot, refuse_unknown, sample_times
from rhel_hw.instrument.core import Instrument
from rhel_hw.instrument.interpreter import execute

STEP_S = 1e-9
LARGEST = 1.0


class Quick:
    """A bench without physics: channel `position.a` reads the drive back, `target.y` its running sum."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s, self.programmed, self.shots = pause_s, {}, []

    def describe(self) -> Description:
        channels = {
            "position.a": Channel("position.a", Kind.POSITION, "a", "V", LARGEST),
            "target.y": Channel("target.y", Kind.TARGET, "a", "V", LARGEST),
        }
        return Description(
            "quick, one", channels, {"u": "A"}, {"y": "C"}, {"L.inductance": Limits("H", 1e-9, 1e-6)}, STEP_S, 1,
            10**7, "momentum-flip", True, 1, len(self.shots), 1e-3 * len(self.shots), ("a",),
            {"drive.u": 5.0},
            {"gamma": "auto"}, True, zoom=4.0,
        )  # fmt: skip

    def program(self, parameters) -> None:
        refuse_unknown("parameters", parameters, self.describe().parameters)
        for name, value in parameters.items():
            if not 1e-9 <= value <= 1e-6:
                raise ArgumentError(f"Argument `parameters` must keep `{name}` between 1e-09 and 1e-06 H")
        self.programmed |= parameters

    def run(self, shot: Shot) -> Record:
        time.sleep(self.pause_s)
        if shot.steps > 10**7:
            raise ArgumentError("Argument `steps` must fit into the memory")
        if shot.echo and not self.shots:
            raise ArgumentError("Argument `echo` must follow a pass that was held")
        self.shots.append(shot)
        wave = shot.drive.get("u", np.zeros((shot.steps, 1, 1)))
        read = {"position.a": np.clip(wave, -LARGEST, LARGEST), "target.y": np.cumsum(wave, axis=0)}
        read = {k: v for k, v in read.items() if shot.channels is None or k in shot.channels}
        kinds = {"position.a": Kind.POSITION, "target.y": Kind.TARGET}
        times = {k: sample_times(kinds[k], shot.steps, 1, STEP_S) for k in read}
        flags = {"position.a": np.abs(wave) > LARGEST} if "position.a" in read else {}
        return Record(times, read, dict.fromkeys(read, "V"), flags)


class Desk:
    """An instrument without a socket: say messages, get answers."""

    def __init__(self, bench=None) -> None:
        self.bench = bench or Quick()
        self._loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(1)
        self.instrument = Instrument(self.bench, "[design]\n", self._pool, 10**7, 10**6)

    def raw(self, message) -> bytes:
        data = message if isinstance(message, bytes) else message.encode()

        async def answer():
            return [bytes(piece) async for piece in execute(self.instrument, data)]

        return b"".join(self._loop.run_until_complete(answer()))

    def __call__(self, message) -> str:
        return self.raw(message).decode().rstrip("\n")

    def fault(self, message) -> str:
        """The one error that a message causes."""
        assert self(message) == ""
        first, rest = self("SYST:ERR?"), self("SYST:ERR?")
        assert rest == '0,"No error"'
        return first

    def close(self) -> None:
        self("*WAI")
        self._loop.close()
        self._pool.shutdown()


class Served:
    """A server in a process of its own, as `rhel-hw serve` starts it."""

    def __init__(self, design, *options, log=os.devnull) -> None:
        command = [sys.executable, "-m", "rhel_hw.cli", "serve", str(design), "--port", "0", "--json", *options]
        with open(log, "w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        text, deadline = b"", time.monotonic() + 120
        while not text.endswith(b"}\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not piece:
                self.kill()
                raise AssertionError(f"no server: {text.decode()}{Path(log).read_text()}")
            text += piece
        self.told = json.loads(text)
        self.address, self.port = self.told["address"], self.told["port"]

    def socket(self, timeout_s: float = 10.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def resident(self) -> float:
        """MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def served(design, *options, log=os.devnull):
    server = Served(design, *options, log=log)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def listening(bench=None, **options):
    """A server in a thread of this process, with a bench that is there at once; gives its port."""
    from rhel_hw.instrument.server import Server

    loop, ports = asyncio.new_event_loop(), []
    up = threading.Event()

    def ready(_host, port):
        ports.append(port)
        up.set()

    async def run():
        server = Server(bench or Quick(), "[design]\n", **options)
        await server.run("127.0.0.1", 0, ready)

    task = loop.create_task(run())

    def work():
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        finally:
            others = asyncio.all_tasks(loop)
            for other in others:
                other.cancel()
            loop.run_until_complete(asyncio.gather(*others, return_exceptions=True))
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert up.wait(10)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
        assert not thread.is_alive()


class Line:
    """A controller with a bare socket."""

    def __init__(self, port: int, timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._read = self.socket.makefile("rb")

    def say(self, message) -> None:
        data = message if isinstance(message, bytes) else message.encode() + b"\n"
        self.socket.sendall(data)

    def drip(self, data: bytes, every_s: float) -> None:
        """Say it byte by byte."""
        for i in range(len(data)):
            self.say(data[i : i + 1])
            time.sleep(every_s)

    def hear(self) -> str:
        """A line; empty if the server has hung up."""
        return self._read.readline().decode().rstrip("\n")

    def ask(self, message) -> str:
        self.say(message)
        return self.hear()

    def close(self, *, rudely: bool = False) -> None:
        if rudely:  # resets the connection instead of ending it
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self._read.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


VALID = (
    b"*IDN?\n", b"SYST:ERR?\n", b"*ESR?;*STB?\n", b"FORM REAL,64\n", b"FORM ASC;:FORM?\n", b"PAR:CAT?\n",
    b"SHOT:CLE;STEP 5;ECHO OFF;HOLD ON\n", b'SHOT:CLE;STEP 2;:DRIV "u0",0.5,0.25;:INIT;*WAI\n',
    b'FORM REAL,32;:SHOT:CLE;STEP 2;:DRIV "u0",#18\x00\x00\x00?\n;?\xff;:INIT\n', b"FETC:CAT?\n",
    b"DES:USED?\n", b"INIT:DONE? 0.01\n", b"STAT:OPER:COND?;:STAT:QUES?\n", b"SYST:HELP:HEAD?\n",
    b'NUDG "y0",#H1F,2e-3\n',
)  # fmt: skip
"""Messages that a server with drive u0 and target y0 understands."""


def mutated(rng: random.Random) -> bytes:
    """A message that was understood once, or nothing of the kind."""
    kind = rng.random()
    if kind < 0.2:
        return rng.randbytes(rng.randint(1, 40)) + b"\n"
    message = bytearray(rng.choice(VALID))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(message))
        change = rng.random()
        if change < 0.4:
            message[at] = rng.randrange(256)
        elif change < 0.6:
            del message[at]
        elif change < 0.8:
            message[at:at] = rng.choice((b"#", b'"', b";", b",", b"\n", b"#9", b"#15", b"?", b"\x00", b"-1e999", b"::"))
        else:
            message[at:at] = rng.choice(VALID)
        if not message:
            message = bytearray(b"\n")
    return bytes(message)
