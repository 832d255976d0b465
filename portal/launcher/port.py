"""The listening socket of the web process, and who holds the port when it can't be had."""

import errno
import socket

import psutil

from portal.launcher.errors import LaunchError

ADDRESS = "127.0.0.1"


def listener_open(port: int) -> socket.socket:
    """Listen before anything starts, so that a port in use is found at once."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise LaunchError(
                f"Port {port} is in use{holder_words(port)}; stop that, or choose another: "
                f"make run PORT={port % 65535 + 1}"
            ) from None
        raise LaunchError(
            f"Port {port} can't be used ({error.strerror}); choose one above 1023: make run PORT=8000"
        ) from None
    return listener


def holder_words(port: int) -> str:
    """` by NAME (process N)` where the system tells."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return ""
    return ""
