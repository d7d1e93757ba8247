"""Commands as real processes, forked from one that has imported everything: five times as fast.

    process = Forked(["label", "digits", "--no-browser"], folder)

Each test process has one process that imports the command line and what `everylabel label` needs, and waits
for requests on a socket. For each request it forks a parent and its only child. The child runs
`python -m everylabel.cli` with the arguments, folder, environment and outputs of the request; the parent
reports the child's number and exit code. So a server can be killed, stopped and waited for like any other
process.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, NoReturn

LONGEST = 1 << 18  # bytes of a request
WIDTH = 20  # bytes of a reported number


class Forked:
    """A process like those of `subprocess.Popen`; both outputs are pipes of text, or go to one file."""

    def __init__(
        self, arguments: list[str], folder: Path, out: IO[Any] | None = None, first: str = ""
    ) -> None:
        """Start `everylabel` in a folder; `first` is code that runs before."""
        told, tells = os.pipe()
        handles = [out.fileno(), out.fileno()] if out else []
        self.stdout: IO[str] | None = None if out else _piped(handles)
        self.stderr: IO[str] | None = None if out else _piped(handles)
        place = {"folder": str(folder), "environment": dict(os.environ)}
        request = {"arguments": arguments, "first": first, **place}
        try:
            socket.send_fds(_asking(), [json.dumps(request).encode()], [*handles, tells])
        finally:
            for handle in (tells, *([] if out else handles)):
                os.close(handle)
        self.pid, self._told = int(os.read(told, WIDTH)), told
        self.returncode: int | None = None
        _running.add(self)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the process has ended: minus the signal if one ended it."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("everylabel", timeout or 0.0)
            self.returncode = int(os.read(self._told, WIDTH))
            os.close(self._told)
            _running.discard(self)
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process as a power cut would."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to stop."""
        self.send_signal(signal.SIGTERM)


_running: set[Forked] = set()
_asked: list[socket.socket] = []  # the socket of the process that forks, once there is one


def _piped(handles: list[int]) -> IO[str]:
    """Return the end of a pipe to read from; the other joins `handles`."""
    ours, theirs = os.pipe()
    handles.append(theirs)
    return os.fdopen(ours)


def _asking() -> socket.socket:
    """Return the socket of the forking process; the first call starts it."""
    if not _asked:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
        command = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
        here = Path(__file__).parents[1]
        process = subprocess.Popen(command, cwd=here, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        _asked.append(ours)
        atexit.register(_end, process)
    return _asked[0]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the forking process, and processes that a failed test has left."""
    for left in list(_running):
        left.kill()
        left.wait()
    _asked.pop().close()
    process.wait()


def _fork(asked: socket.socket) -> None:
    """Fork for each request until the socket is closed."""
    while True:
        request, handles, _, _ = socket.recv_fds(asked, LONGEST, 3)
        _reap()
        if not request:
            break
        if os.fork() == 0:
            asked.close()
            _child(json.loads(request), *handles)
        for handle in handles:
            os.close(handle)
    _reap(0)


def _reap(how: int = os.WNOHANG) -> None:
    """Wait for children that have ended; with 0, for all."""
    try:
        while os.waitpid(-1, how)[0]:
            pass
    except ChildProcessError:
        return


def _child(asked: dict[str, Any], out: int, err: int, tells: int) -> NoReturn:
    """Run the command in a child and report its exit code."""
    pid = os.fork()
    if pid:
        os.close(out)
        os.close(err)
        os.write(tells, b"%*d" % (WIDTH, pid))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(tells, b"%*d" % (WIDTH, code))
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for handle in (out, err, tells):
        os.close(handle)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = asked["folder"]
    sys.argv = ["everylabel", *asked["arguments"]]
    exec(asked["first"], {})
    runpy.run_module("everylabel.cli", run_name="__main__", alter_sys=True)
    sys.exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end us
    import pandas  # noqa: F401
    import sklearn.datasets
    import sklearn.decomposition
    import sklearn.feature_extraction.text  # noqa: F401

    import everylabel.cli.commands
    import everylabel.cli.label
    import everylabel.web.server  # noqa: F401

    gc.collect()
    gc.freeze()  # or each child would copy all of it as soon as it collects
    _fork(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
