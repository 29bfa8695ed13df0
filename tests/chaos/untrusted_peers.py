"""Strangers on a job's ports: they connect and wait, send junk, or connect by the thousand."""

import os
import random
import re
import socket
import threading
import time

from job import read


def sockets_of(pid):
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
            if match:
                found.add(match[1])
    except OSError:
        pass
    return found


def listening(pids):
    """(address, port) of every socket on which one of the processes listens. Addresses as the system writes them, in hex."""
    owned = set().union(*map(sockets_of, pids)) if pids else set()
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(table).splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in owned:
                address, port = words[1].split(":")
                found.add((address, int(port, 16)))
    return found


LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


class UntrustedPeers:
    """A thread that connects to every port of the processes as soon as it opens, until it is stopped."""

    KINDS = ("wait", "junk", "many", "hello")

    def __init__(self, pids, kind, seed):
        self.pids, self.kind, self.random = pids, kind, random.Random(seed)
        self.ports, self.foreign, self.connections, self.most_fds = set(), set(), 0, 0
        self._seen, self._first = set(), None
        self._held, self._stop = [], threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()
        for held in self._held:
            held.close()

    def _run(self):
        while not self._stop.is_set():
            for address, port in listening(self.pids):
                if address not in LOOPBACK:
                    self.foreign.add((address, port))
                elif self._wants(port):
                    self.ports.add(port)
                    self._visit(port)
            self.most_fds = max([self.most_fds] + [self._fds(pid) for pid in self.pids])
            self._stop.wait(0.002)

    def _wants(self, port):
        """Each new port at once, including ports open for a moment while ranks connect to each
        other; the first one, rank 0's, repeatedly."""
        if port not in self._seen:
            self._seen.add(port)
            self._first = self._first or port
            return True
        return port == self._first and (self.kind == "many" or self.random.random() < 0.05)

    @staticmethod
    def _fds(pid):
        try:
            return len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return 0

    def _visit(self, port):
        try:
            for _ in range(100 if self.kind == "many" else 1):
                one = socket.create_connection(("127.0.0.1", port), timeout=1)
                self.connections += 1
                self._held.append(one)
                if self.kind == "junk":
                    one.sendall(self.random.randbytes(256))
                elif self.kind == "hello":  # as a rank begins, but without the rest
                    one.sendall(bytes([40, 0, 0, 0, 1, 0, 0, 0]) + self.random.randbytes(40))
        except OSError:
            time.sleep(0.001)
        while len(self._held) > 300:
            self._held.pop(0).close()
