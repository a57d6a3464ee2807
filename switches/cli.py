"""Commands to a running embedded switch: python -m switches.cli NAME_OR_SOCKET 'register_read seen 0' [...].

Without a command, reads commands from standard input, one a line.
"""

from __future__ import annotations

import sys

from switches.control import ControlError
from switches.embedded.control import SocketControl
from switches.sockets import running, socket_path


def main() -> None:
    """Run the commands given and print what the switch answers; the exit code is 1 if it refuses one."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(f"usage: python -m switches.cli NAME_OR_SOCKET [COMMAND ...]\nrunning: {', '.join(running()) or 'none'}")
    commands = sys.argv[2:] or sys.stdin
    try:
        with SocketControl(socket_path(sys.argv[1])) as control:
            for line in commands:
                print(control.command(line), end="")
    except ControlError as error:
        names = f" (running: {', '.join(running())})" if "/" not in sys.argv[1] and running() else ""
        sys.exit(f"error: {error}{names}")


if __name__ == "__main__":
    main()
