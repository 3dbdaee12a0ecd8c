"""The server: sockets, one controller at a time, and limits on what it may ask for.

Nothing that comes over the wire is executed or used as a path: it is read as commands of a table, numbers and names.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

from devices import ArgumentError, refuse_unless_positive
from rhel_hw.bench import Bench
from rhel_hw.instrument.core import Instrument, Piece
from rhel_hw.instrument.faults import Fault
from rhel_hw.instrument.interpreter import execute
from rhel_hw.instrument.syntax import Framer, LostError

READ = 2**18
"""Bytes taken from a socket at a time."""
WRITTEN = 2**20
"""Bytes of an answer that must be taken within the time of a message."""
MOST_CONNECTIONS = 64
LINGER_S = 1.0
"""For how long a refused controller is listened to, so that it can read why."""
SECONDS = ("refuse", "queue")
"""What becomes of a second controller."""


@dataclass(frozen=True)
class Limits:
    """What a controller may ask for."""

    message_bytes: int = 64 * 2**20
    """Of one message."""
    waveform_values: int = 4 * 2**20
    """Of one waveform."""
    idle_s: float = 3600.0
    """Without any message; then the connection is closed."""
    message_s: float = 60.0
    """From the first byte of a message to its last, and for every mebibyte of an answer to be taken."""

    def __post_init__(self) -> None:
        refuse_unless_positive(**{f.name: getattr(self, f.name) for f in fields(self)})


class Server:
    """A bench on a socket.

    Arguments:
        bench: whatever answers to the interface.
        netlist: the design as a file, for controllers that do not have it.
        second: what becomes of a second controller: "refuse" or "queue".
        limits: on what a controller may ask for.
    """

    def __init__(self, bench: Bench, netlist: str, *, second: str = "refuse", limits: Limits | None = None) -> None:
        if second not in SECONDS:
            raise ArgumentError(f"Argument `second` must be one of {', '.join(SECONDS)}, but is {second!r}")
        self._limits, self._queues = limits or Limits(), second == "queue"
        self._pool = ThreadPoolExecutor(1, "bench")
        most = (self._limits.message_bytes, self._limits.waveform_values)
        self._instrument = Instrument(bench, netlist, self._pool, *most)
        self._controller = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether a pass is under way."""
        return self._instrument.busy

    async def run(self, host: str, port: int, ready: Callable[[str, int], None]) -> None:
        """Listen until cancelled; `ready` is told where."""
        if not host:  # which asyncio takes for all of them
            raise ArgumentError("Argument `host` must be a name or an address to listen on, but is empty")
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=4 * READ)
        except (OSError, OverflowError, UnicodeError) as problem:
            raise ArgumentError(
                f"Arguments `host` and `port` must be free to listen on, but {host}:{port} is not: {problem}"
            ) from None
        try:
            ready(*server.sockets[0].getsockname()[:2])
            await asyncio.get_running_loop().create_future()  # until cancelled: connections are our own to end
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            self._pool.shutdown(wait=False)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio makes one for every connection
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                if len(self._connections) <= MOST_CONNECTIONS:
                    await self._admit(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()  # a reset is noticed at once, an end only when a controller gives up waiting
        finally:
            self._connections.discard(task)
            writer.close()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a controller in when its turn comes, or send it away."""
        if self._controller.locked() and not self._queues:
            await self._refuse(reader, writer)
            return
        said = await self._turn(reader)
        if said is None:
            return
        try:
            await self._converse(reader, writer, said)
        finally:
            self._controller.release()

    async def _turn(self, reader: asyncio.StreamReader) -> bytes | None:
        """Wait for the turn of a controller, and give what it has said meanwhile; None if it left."""
        turn, said = asyncio.ensure_future(self._controller.acquire()), b""
        await asyncio.sleep(0)  # it may be free
        try:
            while not turn.done() and len(said) < READ:
                heard = asyncio.ensure_future(reader.read(READ))
                await asyncio.wait({turn, heard}, return_when=asyncio.FIRST_COMPLETED)
                heard.cancel()  # if it has not heard anything
                with contextlib.suppress(asyncio.CancelledError):
                    data = await heard
                    if not data:
                        if turn.done():
                            self._controller.release()
                        return None
                    said += data
            await turn
            return said
        finally:
            turn.cancel()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{Fault(-203, 'another controller is at work')}\n".encode())
        async with asyncio.timeout(LINGER_S):
            await writer.drain()
            while await reader.read(READ):
                pass

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Answer one controller until it leaves. What it leaves unfinished is forgotten."""
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        framer, loop, deadline = Framer(self._limits.message_bytes), asyncio.get_running_loop(), 0.0
        status = self._instrument.status
        try:
            while True:
                begun = framer.begun
                for message in framer.feed(data):
                    begun = False
                    async for piece in execute(self._instrument, message):
                        await self._send(writer, piece)
                if not framer.begun:
                    deadline = loop.time() + self._limits.idle_s
                elif not begun:
                    deadline = loop.time() + self._limits.message_s
                async with asyncio.timeout_at(deadline):
                    data = await reader.read(READ)
                if not data:
                    return
        except LostError as lost:
            status.add(lost.fault)
        except TimeoutError:
            if framer.begun:
                status.add(Fault(-365, f"a message was not complete within {self._limits.message_s:g} s"))
            raise

    async def _send(self, writer: asyncio.StreamWriter, piece: Piece) -> None:
        view = memoryview(piece)
        for start in range(0, len(view), WRITTEN):
            writer.write(view[start : start + WRITTEN])
            try:
                async with asyncio.timeout(self._limits.message_s):
                    await writer.drain()
            except TimeoutError:
                self._instrument.status.add(Fault(-400, "an answer was not read"))
                writer.transport.abort()
                raise ConnectionResetError from None


def is_loopback(host: str) -> bool:
    """Whether nobody outside of this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
