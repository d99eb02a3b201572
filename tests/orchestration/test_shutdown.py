"""A signal ends the process whatever its threads do, and its end waits for nobody."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SENTENCE = "stopped. Finished results are stored; run the same command to continue.\n"

COMMAND = """
import atexit, ctypes, hashlib, os, signal, sys, threading, time, types
from rag_assay.orchestration import shutdown, start

opened = [os.open(os.devnull, os.O_RDONLY) for _ in range({n_open})]

def main():
    with shutdown.grace({grace}):
{body}

sys.modules["rag_assay.orchestration.cli"] = types.SimpleNamespace(main=main)
start.main()
"""
SWALLOWS = """
print("here", flush=True)
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
KEEPS_A_THREAD = """
threading.Thread(target=time.sleep, args=[60]).start()
print("here", flush=True)
time.sleep(60)
"""
HANGS_AT_EXIT = """
atexit.register(time.sleep, 60)
print("here", flush=True)
time.sleep(60)
"""
IN_A_LIBRARY = """
print("here", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)  # no signal ends it, and other threads run
"""
LET_NOBODY_RUN = """
try:
    print("here", flush=True)
    time.sleep(60)
finally:
    time.sleep(0.5)
    ctypes.PyDLL(None).usleep(60_000_000)  # holds the interpreter, as a library's destructor may
"""
STUCK = {
    "swallows": SWALLOWS,
    "keeps a thread": KEEPS_A_THREAD,
    "hangs at exit": HANGS_AT_EXIT,
    "in a library": IN_A_LIBRARY,
}


def begun(body: str, grace: str = "0.2", n_open: int = 0) -> subprocess.Popen[str]:
    """Start a command that does this, and wait until it says that it is there."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(body=lines, grace=grace, n_open=n_open)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a process; return its code, what it wrote after it said that it is there, and its errors."""
    assert process.stdout is not None
    assert process.stderr is not None
    code = process.wait(50)
    return code, process.stdout.read(), process.stderr.read().lstrip("\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("what", STUCK)
def test_a_command_that_does_not_end_is_ended(what: str, number: signal.Signals) -> None:
    process = begun(STUCK[what])
    process.send_signal(number)
    assert ended(process) == (130, "", SENTENCE)


def test_a_process_with_a_thousand_open_files_is_ended() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000:
        pytest.skip("this user may not open so many files")
    process = begun(SWALLOWS, n_open=1100)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (130, "", SENTENCE)


def test_a_library_that_lets_no_thread_run_does_not_keep_the_process() -> None:
    process = begun(LET_NOBODY_RUN, grace="1")
    process.send_signal(signal.SIGTERM)
    assert process.wait(50) == 1, "the interpreter is not there to give another code"


def test_a_second_signal_ends_at_once() -> None:
    ends = """
try:
    print("here", flush=True)
    time.sleep(60)
finally:
    print("tidies", flush=True)
    time.sleep(1)
    print("tidied", flush=True)
    time.sleep(60)
"""
    process = begun(ends, grace="600")
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "tidies\n"
    process.send_signal(signal.SIGURG)
    assert process.stdout.readline() == "tidied\n", "another signal is no second one"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", SENTENCE)


def test_what_handles_a_signal_itself_goes_on() -> None:
    goes_on = """
for _ in range(2):
    try:
        print("here", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.6)
print("there", flush=True)
raise SystemExit(7)
"""
    process = begun(goes_on, grace="float('inf')")
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (7, "there\n", "")


def test_a_wait_that_a_signal_does_not_end_is_ended() -> None:
    """As a prompt that begins to wait just after Ctrl-C: else the handler would run at the next key."""
    waits = """
def interrupt():
    time.sleep(0.3)  # until the main thread waits
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=interrupt).start()
print("here", flush=True)
try:
    ctypes.CDLL(None).pause()
except KeyboardInterrupt:
    print("there", flush=True)
"""
    assert ended(begun(waits, grace="float('inf')")) == (0, "there\n", "")


def test_a_forked_childs_signal_is_its_own() -> None:
    forks = """
begun, ready = os.pipe()
child = os.fork()
if child == 0:
    signal.signal(signal.SIGINT, lambda *_: os._exit(5))
    os.write(ready, b"x")
    time.sleep(60)
os.read(begun, 1)
os.kill(child, signal.SIGINT)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
time.sleep(1)
print("here", flush=True)
raise SystemExit(code)
"""
    process = begun(forks, grace="0.1")
    assert ended(process) == (5, "", "")


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("pass", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('why')", 1),
        ("raise ValueError('why')", 1),
    ],
)
def test_exit_code_output_and_what_is_registered_for_the_exit(ends: str, code: int) -> None:
    body = f"""
atexit.register(sys.stdout.write, "at exit ")
print("here", flush=True)
sys.stdout.write("unflushed ")
{ends}
"""
    process = begun(body)
    found, out, err = ended(process)
    assert (found, out) == (code, "unflushed at exit ")
    assert ("why" in err) is ("why" in ends)


def test_output_that_cannot_be_written_is_a_sentence_and_a_code() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("a system without a full device")
    body = '        sys.stdout.write("more than nothing")\n'
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND.format(body=body, grace="1", n_open=0)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            check=False,
            timeout=50,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
