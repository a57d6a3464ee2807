"""Commands to a running embedded switch: python -m inalab.switches.cli NAME_OR_SOCKET 'register_read seen 0' [...].

Without a command, reads commands from standard input, one a line. As simple_switch_CLI does, it goes on after one that is refused.
"""

from __future__ import annotations

import sys

from .control import CommandError, ControlError
from .embedded.control import SocketControl
from .sockets import running, socket_path

USAGE = """usage: python -m inalab.switches.cli NAME_OR_SOCKET [COMMAND ...]
The commands are those of simple_switch_CLI; docs/reference/embedded-switch.md lists them. For example:
  show_tables                     table_info TABLE          table_dump TABLE
  table_add TABLE ACTION KEY... => ARGUMENT... [PRIORITY]   table_delete TABLE HANDLE
  register_read REGISTER [INDEX]  register_write REGISTER INDEX VALUE
  counter_read COUNTER INDEX      counter_reset COUNTER     show_ports
Names may be shortened to any unambiguous end."""


def main() -> None:
    """Run the commands given and print what the switch answers; the exit code is 1 if it refuses one."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(f"{USAGE}\nrunning: {', '.join(running()) or 'none'} (a trial's own are in its namespaces: see inalab watch)")
    commands = sys.argv[2:] or sys.stdin
    refused = False
    try:
        with SocketControl(socket_path(sys.argv[1])) as control:
            for line in commands:
                try:
                    print(control.command(line), end="", flush=True)
                except CommandError as error:
                    refused = True
                    print(f"error: {line.strip()}: {error}", file=sys.stderr, flush=True)
    except OSError as error:
        sys.exit(f"error: {error}")
    except ControlError as error:
        names = f" (running: {', '.join(running())})" if "/" not in sys.argv[1] and running() else ""
        sys.exit(f"error: {error}{names}")
    sys.exit(int(refused))


if __name__ == "__main__":
    main()
