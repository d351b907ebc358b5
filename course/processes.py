"""Programs that the grader starts, each in a process group of its own: tools with limits, judges; none outlives the grader."""
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time

from marks import Trouble, printable


class Processes:
    """All that run now, each the first of a group of its own, so that they can be ended from another thread."""

    def __init__(self):
        self.lock, self.running, self.stopped = threading.Lock(), set(), False

    def start(self, command, **options):
        with self.lock:
            if self.stopped:
                raise Trouble("interrupted")
            process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, start_new_session=True, **options)
            self.running.add(process)
        return process

    def end(self, process, patience):
        """The exit code of one that has at most `patience` seconds left. What it has started ends with it."""
        deadline = time.monotonic() + patience
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) and time.monotonic() < deadline:
            time.sleep(0.001)
        with self.lock:  # its group has this number until it is waited for
            self.running.discard(process)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)


PROCESSES = Processes()


# Of a compiler and of binutils, which read a file of strangers: KiB of memory, seconds of work, blocks of 512 bytes of a file. The shell
# sets them before it becomes the tool, so they hold from the first instruction on, however busy the machine is.
TOOL_LIMITS = "ulimit -c 0 && ulimit -v 2097152 && ulimit -t 60 && ulimit -f 524288 && exec \"$@\""


def call(command, limited=True, **options):
    """A tool's exit code and what it says. A compiler that does not end is ended, with what it started. Its temporary files lie in the folder
    that it runs in, and are removed with that if it was killed."""
    env = dict(os.environ, LC_ALL="C", **({"TMPDIR": str(options["cwd"])} if "cwd" in options else {}))
    if not shutil.which(command[0]):
        raise Trouble(f"cannot run {command[0]}: No such file or directory; a C compiler and binutils are needed")
    try:
        process = PROCESSES.start(["sh", "-c", TOOL_LIMITS, "sh", *command] if limited else command, stdin=subprocess.DEVNULL, env=env, **options)
    except OSError as error:
        raise Trouble(f"cannot run {command[0]}: {error.strerror}; a C compiler and binutils are needed") from None
    said, late = b"", False
    try:
        said, late = read_for(process.stdout, 300)
    finally:
        code = PROCESSES.end(process, 0 if late else 5)
        process.stdout.close()
    if late:
        return 1, f"{command[0]} ran longer than 300 s"
    return code, printable(said, len(said))


def read_for(pipe, seconds, most=1 << 22):
    """What is written to a pipe, and whether it was not closed within that time."""
    said, deadline = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0, deadline - time.monotonic())):
                return said, True
            data = os.read(pipe.fileno(), 65536)
            if not data:
                return said, False
            said = (said + data)[:most]
