"""A network, mount and PID namespace for a piece of work: when its first process ends, all of it is gone.

An ordinary user gets a user namespace around them, in which it is root, where the kernel allows that.

The child of `isolated` is process 1 of its own world. If the caller dies, by whatever signal, the kernel kills that
process, and with it every process, interface and mount that the work made.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWUTS = 0x04000000
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1


def check(result: int, what: str) -> None:
    """Raise OSError if a call of the C library has failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2). Raises OSError."""
    words = source.encode(), target.encode(), kind.encode() if kind else None, flags, options.encode() or None
    check(_libc.mount(*words), f"mount {target}")


def call_host(name: str) -> None:
    """Have this process's host be called so, for it and for what it starts."""
    check(_libc.unshare(CLONE_NEWUTS), "unshare")
    socket.sethostname(name)


def enter_network(pid: int) -> None:
    """Move this process into the network namespace of another."""
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        check(_libc.setns(descriptor, CLONE_NEWNET), "setns")
    finally:
        os.close(descriptor)


@contextmanager
def in_network(pid: int) -> Iterator[None]:
    """Be in the network namespace of another process for a while."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter_network(pid)
        try:
            yield
        finally:
            check(_libc.setns(own, CLONE_NEWNET), "setns")
    finally:
        os.close(own)


def search_path() -> str:
    """The PATH with the folders of ip and tc, where an ordinary user does not search."""
    return f"{os.environ.get('PATH') or os.defpath}:/usr/sbin:/sbin"


def _enter_new_world() -> None:
    """Fresh namespaces with a /proc and /sys that show them and an empty /run (control sockets)."""
    os.environ["PATH"] = search_path()
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc", 0)
    mount("sysfs", "/sys", "sysfs", 0)
    mount("tmpfs", "/run", "tmpfs", 0)
    for name in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")


def _unshare(as_user: bool, keep_user: bool) -> None:
    """Leave the caller's namespaces: as root, or in a user namespace whose root is the caller. OSError if neither is allowed.

    `as_user`: in a user namespace in any case, so that not even root has power outside. `keep_user`: see `start`.
    """
    wanted, user, group = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET, os.geteuid(), os.getegid()
    if not as_user and _libc.unshare(wanted) == 0:
        return
    parent = os.getppid()
    check(_libc.unshare(wanted | CLONE_NEWUSER), "unshare")
    Path("/proc/self/uid_map").write_text(f"{user if keep_user else 0} {user} 1")
    Path("/proc/self/setgroups").write_text("deny")  # without it an ordinary user may not map groups
    Path("/proc/self/gid_map").write_text(f"{group if keep_user else 0} {group} 1")
    die_with_parent()  # the kernel drops this request when a process changes its credentials
    if os.getppid() != parent:
        os._exit(1)


def possible(work: Callable[[], int] = lambda: 0) -> bool:
    """Whether this process may make namespaces, and `work` succeeds in them; what goes wrong is not printed."""

    def attempt() -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the reason is the doctor's to tell
        return isolated(work)

    return wait(fork(attempt)) == 0


def isolated(work: Callable[[], int]) -> int:
    """Run `work` in namespaces of its own and return its exit code, or -signal."""
    return wait(start(work))


def fork(work: Callable[[], int]) -> int:
    """Run `work` in a child process that ends with its exit code, and at the latest with this process; the child's pid.

    If a signal that came meanwhile raises here, the child has ended: its pid would be lost.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.pidfd_open(os.getpid())
    # Python drops what a signal's handler raises in the hooks that run around a fork
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        pid = os.fork()
    except OSError:
        os.close(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        raise
    if pid:
        os.close(parent)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        return pid
    code = 1
    try:
        try:
            die_with_parent()
            ended = select.poll()
            ended.register(parent, select.POLLIN)
            if ended.poll(0):
                os._exit(code)  # it had died before
            os.close(parent)
            gc.freeze()  # collecting what is the parent's would copy its pages
            # a signal may wait here since the fork: what it raises must not leave through the caller's frames
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            code = work()
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


def start(work: Callable[[], int], session: bool = True, as_user: bool = False, keep_user: bool = False) -> int:
    """Begin `work` in namespaces of its own; the pid to `wait` for or to kill (which ends all of it).

    `as_user`: in a user namespace even for root, without any power outside.
    `keep_user`: an ordinary user stays who it is, and has no power inside once it executes a program, instead of being root there.
    Without a `session` of its own, it reads the terminal, and Ctrl-C there reaches it; the caller had better ignore that.
    """

    def first_process() -> int:
        if not session:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _enter_new_world()
        return work()

    def outside() -> int:
        if session:
            os.setsid()  # Ctrl-C at the terminal reaches the caller alone
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _unshare(as_user, keep_user)
        return _exit_code(os.waitpid(fork(first_process), 0)[1])

    return fork(outside)


def wait(pid: int) -> int:
    """Wait for what `start` began; its exit code, or -signal."""
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def of_shell(code: int) -> int:
    """An exit code as a shell has it: a signal, which is a negative number in Python, is 128 and more."""
    return code if code >= 0 else 128 - code


def ending(code: int) -> str:
    """An exit code in words. A signal is a negative number, as Python has it, or 128 and more, as a shell has it."""
    number = -code if code < 0 else code - 128
    if number <= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(number).name}"
    except ValueError:
        return f"was killed by signal {number}" if code < 0 else f"ended with exit code {code}"
